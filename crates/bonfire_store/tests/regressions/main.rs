//! What a review with fresh eyes found, so that it stays mended. Each test says what should hold.

#[path = "../common/mod.rs"]
mod common;
#[path = "../sealed_support/mod.rs"]
mod sealed_support;

mod faults;
mod hooked;
mod sealed;
mod slots;
mod stores;
