//! The attributes, and what to say about mistakes in them.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, LitInt, LitStr, Path, Result, Token, WherePredicate};

/// `#[persist(..)]` on a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) key: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) transient: Option<proc_macro2::Span>,
    pub(crate) krate: Option<Path>,
    pub(crate) bound: Option<Punctuated<WherePredicate, Token![,]>>,
}

/// `#[persist(..)]` on a field or variant.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) skip: Option<proc_macro2::Span>,
    /// `default` alone is `Some(None)`.
    pub(crate) default: Option<Option<Expr>>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) with: Option<Path>,
}

fn nested(attributes: &[Attribute], mut parse: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    for attribute in attributes {
        if attribute.path().is_ident("persist") {
            attribute.parse_nested_meta(|meta| parse(&meta))?;
        }
    }
    Ok(())
}

fn once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>, name: &str) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(meta.error(format!("`{name}` is given twice")));
    }
    Ok(())
}

impl TypeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        for attribute in attributes {
            if attribute.path().is_ident("repr") {
                attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("packed") {
                        return Err(meta.error("a packed type cannot be saved: its fields have no addresses"));
                    }
                    // Other representations are fine; read over their arguments.
                    if meta.input.peek(syn::token::Paren) {
                        let content;
                        syn::parenthesized!(content in meta.input);
                        content.parse::<proc_macro2::TokenStream>()?;
                    }
                    Ok(())
                })?;
            }
        }
        let mut this = Self::default();
        nested(attributes, |meta| {
            if meta.path.is_ident("key") {
                let key: LitStr = meta.value()?.parse()?;
                let text = key.value();
                if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
                    let message =
                        "a key has 1 to 255 bytes and no control characters, such as \"game.health\"";
                    return Err(Error::new(key.span(), message));
                }
                once(&mut this.key, key, meta, "key")
            } else if meta.path.is_ident("version") {
                let version: LitInt = meta.value()?.parse()?;
                if version.base10_parse::<u32>().ok().is_none_or(|version| version == 0) {
                    return Err(Error::new(version.span(), "a version is a number from 1 to 4294967295"));
                }
                once(&mut this.version, version, meta, "version")
            } else if meta.path.is_ident("transient") {
                once(&mut this.transient, meta.path.span(), meta, "transient")
            } else if meta.path.is_ident("crate") {
                once(&mut this.krate, meta.value()?.parse()?, meta, "crate")
            } else if meta.path.is_ident("bound") {
                let bound: LitStr = meta.value()?.parse()?;
                let bound = bound.parse_with(Punctuated::parse_terminated)?;
                once(&mut this.bound, bound, meta, "bound")
            } else {
                Err(meta.error(
                    "a type takes `key = \"..\"`, `version = N`, `transient`, `bound = \"..\"` or `crate = path`",
                ))
            }
        })?;
        if let (None, Some(span)) = (&this.key, this.version.as_ref().map(Spanned::span).or(this.transient)) {
            let message = "this needs a key: add `key = \"game.name\"`";
            return Err(Error::new(span, message));
        }
        Ok(this)
    }
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut this = Self::default();
        nested(attributes, |meta| {
            if meta.path.is_ident("skip") {
                once(&mut this.skip, meta.path.span(), meta, "skip")
            } else if meta.path.is_ident("default") {
                let value = if meta.input.peek(Token![=]) { Some(meta.value()?.parse()?) } else { None };
                once(&mut this.default, value, meta, "default")
            } else if meta.path.is_ident("alias") {
                this.aliases.push(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("with") {
                once(&mut this.with, meta.value()?.parse()?, meta, "with")
            } else if meta.path.is_ident("key") || meta.path.is_ident("version") {
                Err(meta.error("this belongs on the type, not on a field"))
            } else {
                Err(meta.error(
                    "a field takes `skip`, `default`, `default = ..`, `alias = \"..\"` or `with = Adapter`",
                ))
            }
        })?;
        if let (Some(span), true) = (this.skip, this.with.is_some() || !this.aliases.is_empty()) {
            let message = "a skipped field is never saved, so `with` and `alias` mean nothing on it";
            return Err(Error::new(span, message));
        }
        Ok(this)
    }

    /// For variants, which have names but no values of their own.
    pub(crate) fn parse_variant(attributes: &[Attribute]) -> Result<Self> {
        let this = Self::parse(attributes)?;
        if let Some(span) = this.skip {
            return Err(Error::new(span, "a variant cannot be skipped: what would be saved in its place?"));
        }
        if this.default.is_some() || this.with.is_some() {
            let span =
                attributes.iter().map(Spanned::span).next().unwrap_or_else(proc_macro2::Span::call_site);
            return Err(Error::new(span, "a variant takes `alias = \"..\"` only"));
        }
        Ok(this)
    }
}
