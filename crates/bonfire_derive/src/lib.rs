//! `#[derive(Persist)]` for Bonfire, the save system for games.
//!
//! The derive generates a schema, `encode`, `decode`, and a memory layout computed in a `const`
//! from `offset_of!`, so that columns of plain types are copied whole. It never needs `repr(C)`.
//!
//! Games use it through `bonfire`, `bevy_bonfire` or `bonfire_hecs`, which re-export it.
//! [`Persist`](derive@Persist) lists all attributes. The crate has no features.

mod attribute;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input, parse_quote};

#[doc = include_str!("../ATTRIBUTES.md")]
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input, &parse_quote!(::bonfire));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The same derive for games that have `bonfire_hecs` and not the core among their dependencies. They know it as
/// `bonfire_hecs::Persist`.
#[doc(hidden)]
#[proc_macro_derive(PersistInHecs, attributes(persist))]
pub fn derive_persist_in_hecs(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input, &parse_quote!(::bonfire_hecs));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The same derive for games that have `bevy_bonfire` and not the core among their dependencies. They know it as
/// `bevy_bonfire::Persist`.
#[doc(hidden)]
#[proc_macro_derive(PersistInBevy, attributes(persist))]
pub fn derive_persist_in_bevy(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input, &parse_quote!(::bevy_bonfire));
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
