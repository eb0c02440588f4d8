//! Bonfire, the save system for games, in browsers.
//!
//! The tests of this crate run in a browser: see CONTRIBUTING.md.
