//! The attributes, and what to say about mistakes in them.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, WherePredicate};

/// `#[persist(..)]` on a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) key: Option<Key>,
    pub(crate) version: Option<LitInt>,
    /// The type of the version before.
    pub(crate) from: Option<syn::Type>,
    pub(crate) aliases: Vec<Key>,
    /// Fields that there were once.
    pub(crate) removed: Vec<LitStr>,
    /// `dictionary` or `shared`.
    pub(crate) repeats: Option<syn::Ident>,
    pub(crate) transient: Option<proc_macro2::Span>,
    pub(crate) krate: Option<Path>,
    pub(crate) bound: Option<Punctuated<WherePredicate, Token![,]>>,
}

/// A key as it is written, and its parts: text, and type parameters whose keys stand in their place.
pub(crate) struct Key {
    pub(crate) text: LitStr,
    pub(crate) parts: Vec<KeyPart>,
}

pub(crate) enum KeyPart {
    Text(String),
    Parameter(Ident),
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
                once(&mut this.key, parse_key(meta)?, meta, "key")
            } else if meta.path.is_ident("alias") {
                this.aliases.push(parse_key(meta)?);
                Ok(())
            } else if meta.path.is_ident("removed") {
                this.removed.push(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("from") {
                once(&mut this.from, meta.value()?.parse()?, meta, "from")
            } else if meta.path.is_ident("dictionary") || meta.path.is_ident("shared") {
                let repeats = meta.path.require_ident()?.clone();
                if let Some(other) = this.repeats.as_ref().filter(|other| **other != repeats) {
                    return Err(meta.error(format!("`{other}` and `{repeats}` exclude each other")));
                }
                once(&mut this.repeats, repeats, meta, "this")
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
                    "a type takes `key = \"..\"`, `version = N`, `from = Old`, `alias = \"..\"`, `removed = \"..\"`, \
                     `transient`, `dictionary`, `shared`, `bound = \"..\"` or `crate = path`",
                ))
            }
        })?;
        let keyed = (this.version.as_ref().map(Spanned::span))
            .or(this.transient)
            .or(this.from.as_ref().map(Spanned::span))
            .or(this.aliases.first().map(|alias| alias.text.span()))
            .or(this.repeats.as_ref().map(Spanned::span));
        if let (None, Some(span)) = (&this.key, keyed) {
            let message = "this needs a key: add `key = \"game.name\"`";
            return Err(Error::new(span, message));
        }
        if let (Some(_), Some(alias)) = (
            &this.key,
            this.aliases
                .iter()
                .find(|alias| Some(alias.text.value()) == this.key.as_ref().map(|key| key.text.value())),
        ) {
            return Err(Error::new(
                alias.text.span(),
                "this is the key itself: an alias is a key that it had before",
            ));
        }
        if let (Some(from), None) = (&this.from, &this.version) {
            let message =
                "a type that comes from an older one has a version above that one's: add `version = N`";
            return Err(Error::new(from.span(), message));
        }
        if let (Some(span), Some(from)) = (this.transient, &this.from) {
            let _ = span;
            return Err(Error::new(
                from.span(),
                "a transient type is never loaded, so it comes from nothing",
            ));
        }
        Ok(this)
    }
}

fn parse_key(meta: &ParseNestedMeta<'_>) -> Result<Key> {
    let text: LitStr = meta.value()?.parse()?;
    let value = text.value();
    if value.is_empty() || value.len() > 255 || value.chars().any(char::is_control) {
        let message = "a key has 1 to 255 bytes and no control characters, such as \"game.health\"";
        return Err(Error::new(text.span(), message));
    }
    let mut parts = Vec::new();
    let mut rest = &*value;
    while let Some((before, after)) = rest.split_once('{') {
        let parameter = after.split_once('}').and_then(|(name, after)| {
            syn::parse_str::<Ident>(name).ok().map(|name| (Ident::new(&name.to_string(), text.span()), after))
        });
        let Some((name, after)) = parameter else { return Err(braces(&text)) };
        parts.push(KeyPart::Text(before.to_owned()));
        parts.push(KeyPart::Parameter(name));
        rest = after;
    }
    if rest.contains('}')
        || parts.iter().any(|part| matches!(part, KeyPart::Text(text) if text.contains('}')))
    {
        return Err(braces(&text));
    }
    parts.push(KeyPart::Text(rest.to_owned()));
    Ok(Key { text, parts })
}

fn braces(text: &LitStr) -> Error {
    Error::new(text.span(), "braces in a key stand around a type parameter, such as \"game.slot<{T}>\"")
}

impl Key {
    /// The type parameters whose keys are parts of this one.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Ident> {
        self.parts.iter().filter_map(|part| match part {
            KeyPart::Parameter(name) => Some(name),
            KeyPart::Text(_) => None,
        })
    }

    pub(crate) fn is_composed(&self) -> bool {
        self.parameters().next().is_some()
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

#[cfg(test)]
mod tests {
    /// Returns the names that a piece of this file compares attributes with.
    fn names(source: &str) -> Vec<&str> {
        let mut names: Vec<_> =
            source.split("meta.path.is_ident(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        // A representation is no attribute of ours.
        names.retain(|&name| name != "packed");
        names
    }

    #[test]
    fn the_documentation_has_every_attribute() {
        let source = include_str!("attribute.rs");
        let source = source.split("#[cfg(test)]").next().unwrap();
        let (on_types, on_fields) = source.split_once("impl FieldAttributes").unwrap();
        let documentation = include_str!("../ATTRIBUTES.md");
        let (types, fields) = documentation.split_once("# On a field").unwrap();
        // Named on fields only to say that they belong on the type.
        let misplaced = ["key", "version"];
        let known = [(names(on_types), types), (names(on_fields), fields)];
        assert!(known[0].0.len() >= 10 && known[1].0.len() >= 6, "not all attributes are found: {known:?}");
        for (names, section) in known {
            for name in names.into_iter().filter(|name| section != fields || !misplaced.contains(name)) {
                // One line that says what it does, and an example.
                let attribute = format!("`#[persist({name}");
                let described = section.split_once(&attribute).map(|(_, rest)| rest);
                let described = described.unwrap_or_else(|| panic!("`{name}` is not documented"));
                let paragraph = described.split("\n`#[persist(").next().unwrap();
                assert!(paragraph.contains("```") && paragraph.contains(name), "`{name}` has no example");
            }
        }
    }
}
