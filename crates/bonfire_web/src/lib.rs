//! Saves in browsers, for Bonfire, the save system for games.
//!
//! `IndexedDbStore` keeps blobs in IndexedDB. It implements `bonfire_store::Store`, so slots, journals and sealing work on it.
//! The crate is empty on other targets than `wasm32-unknown-unknown`.
//!
//! | file | |
//! |---|---|
//! | `binding` | what is used of the browser |
//! | `event` | events of the browser as futures |
//! | `mailbox` | calls from anywhere, done by a local task |
//! | `indexed_db` | the store: `database` (layout), `change`, `read` |

#![cfg(target_arch = "wasm32")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod binding;
mod event;
mod indexed_db;
mod mailbox;

pub use self::indexed_db::IndexedDbStore;
