//! Helpers for implementations of [`Store`](crate::Store).
//!
//! A store checks every name with [`check_name`] and every batch with [`Batch::check`](crate::Batch::check) before it touches
//! anything, and returns a [`StoreFuture`] from every call. The feature `conformance` has the tests that every store must pass.

pub use crate::portable_name::{check_case, check_name};
pub use crate::store::{Change, Expectation, StoreFuture, check_expectations, is_sealed};
