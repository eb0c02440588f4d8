//! The impls that the derive writes. Names in them begin with two underscores, so that expressions of the user's cannot
//! mean them by accident.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Field, Fields, Ident, Index, LitStr, Member, Path, Result, Type, parse_quote,
};

use crate::attribute::{FieldAttributes, Key, KeyPart, TypeAttributes};

pub(crate) fn expand(input: &DeriveInput, krate: &Path) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let krate: Path = attributes.krate.clone().unwrap_or_else(|| krate.clone());
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a saved type owns its data: use `String`, `Vec`, `Box` or `Cow<'static, _>` instead of borrowing";
        return Err(Error::new(lifetime.span(), message));
    }
    check_parameters(&attributes, &input.generics)?;
    let mut generics = input.generics.clone();
    match &attributes.bound {
        Some(bound) => generics.make_where_clause().predicates.extend(bound.clone()),
        None => {
            for parameter in generics.type_params_mut() {
                parameter.bounds.push(parse_quote!(#krate::__private::Persist));
            }
        }
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;

    let body = match &input.data {
        Data::Struct(data) => structure(&krate, &data.fields, &attributes.removed)?,
        Data::Enum(data) => {
            if let Some(removed) = attributes.removed.first() {
                let message =
                    "only fields of a struct can be removed; a variant that is gone is another one's alias";
                return Err(Error::new(removed.span(), message));
            }
            enumeration(&krate, name, data, input)?
        }
        Data::Union(data) => {
            let message = "a union cannot be saved: nobody knows which of its fields is there; use an enum";
            return Err(Error::new(data.union_token.span(), message));
        }
    };
    let keyed = attributes.key.as_ref().map(|key| {
        let mut generics = generics.clone();
        for parameter in attributes.aliases.iter().chain([key]).flat_map(Key::parameters) {
            let keyed: syn::WherePredicate = parse_quote!(#parameter: #krate::__private::Keyed);
            generics.make_where_clause().predicates.push(keyed);
        }
        let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
        let (key, composed_aliases) =
            (key_text(&krate, key), composed_aliases(&krate, key, &attributes.aliases));
        let version = attributes.version.iter();
        let transient = attributes.transient.iter().map(|_| {
            quote!(
                const TRANSIENT: bool = true;
            )
        });
        let aliases = (!attributes.aliases.is_empty()).then(|| {
            let aliases = attributes.aliases.iter().map(|alias| key_text(&krate, alias));
            quote!(const ALIASES: &'static [&'static str] = &[#(#aliases),*];)
        });
        let repeats = attributes.repeats.as_ref().map(|repeats| match repeats == "shared" {
            true => quote!(
                const SHARED: ::core::option::Option<fn(&Self) -> Self> =
                    ::core::option::Option::Some(<Self as ::core::clone::Clone>::clone);
            ),
            false => quote!(
                const DICTIONARY: bool = true;
            ),
        });
        let (history, checks) = history(&krate, &attributes, &input.generics, name);
        quote! {
            #[automatically_derived]
            impl #impl_generics #krate::__private::Keyed for #name #type_generics #where_clause {
                const KEY: &'static str = #key;
                #(const VERSION: u32 = #version;)*
                #(#transient)*
                #aliases
                #composed_aliases
                #repeats
                #history
            }
            #checks
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #krate::__private::Persist for #name #type_generics #where_clause {
            #body
        }
        #keyed
    })
}

/// Fails if a key names what is no type parameter.
fn check_parameters(attributes: &TypeAttributes, generics: &syn::Generics) -> Result<()> {
    for key in attributes.key.iter().chain(&attributes.aliases) {
        for name in key.parameters() {
            if !generics.type_params().any(|parameter| parameter.ident == *name) {
                let message = format!("`{name}` is no type parameter of this type, so it has no key");
                return Err(Error::new(key.text.span(), message));
            }
        }
    }
    Ok(())
}

/// An expression for the text of a key. One that has the keys of parameters in it is put together at compile time.
fn key_text(krate: &Path, key: &Key) -> TokenStream {
    if !key.is_composed() {
        let text = &key.text;
        return quote!(#text);
    }
    let parts = key.parts.iter().map(|part| match part {
        KeyPart::Text(text) => quote!(#text),
        KeyPart::Parameter(name) => quote!(<#name as #krate::__private::Keyed>::KEY),
    });
    quote!((const { &#krate::__private::ComposedKey::new(&[#(#parts),*]) }).as_str())
}

/// The keys that an instance had when its parameters had other keys.
fn composed_aliases(krate: &Path, key: &Key, aliases: &[Key]) -> Option<TokenStream> {
    let composed: Vec<_> = aliases.iter().chain([key]).filter(|key| key.is_composed()).collect();
    if composed.is_empty() {
        return None;
    }
    let keys = composed.iter().map(|key| {
        let parts = key.parts.iter().map(|part| match part {
            KeyPart::Text(text) => quote!(::std::vec![::std::string::String::from(#text)]),
            KeyPart::Parameter(name) => quote!(#krate::__private::all_keys::<#name>()),
        });
        quote!(::std::vec![#(#parts),*])
    });
    Some(quote! {
        fn composed_aliases() -> ::std::vec::Vec<::std::string::String> {
            #krate::__private::compose_aliases::<Self>(::std::vec![#(#keys),*])
        }
    })
}

/// The step from the type of the version before, and the checks that it is one. Types without parameters are checked where
/// they stand, others where they are used.
fn history(
    krate: &Path,
    attributes: &TypeAttributes,
    generics: &syn::Generics,
    name: &Ident,
) -> (TokenStream, TokenStream) {
    let Some(from) = &attributes.from else { return (quote!(), quote!()) };
    let check = |this: TokenStream| {
        quote_spanned! {from.span()=>
            #krate::__private::check_from::<#from, #this>()
        }
    };
    let inside = check(quote!(Self));
    let history = quote_spanned! {from.span()=>
        fn history(__steps: &mut #krate::__private::History) {
            const { #inside };
            __steps.typed::<#from, Self>();
        }
    };
    let outside = check(quote!(#name));
    let checks = match generics.params.is_empty() {
        true => quote!(const _: () = #outside;),
        false => quote!(),
    };
    (history, checks)
}

/// A field with its attributes.
struct Part<'a> {
    member: Member,
    name: String,
    ty: &'a Type,
    attributes: FieldAttributes,
    span: Span,
}

impl<'a> Part<'a> {
    fn of(fields: &'a Fields) -> Result<Vec<Self>> {
        fields.iter().enumerate().map(|(i, field)| Self::new(i, field)).collect()
    }

    fn new(i: usize, field: &'a Field) -> Result<Self> {
        let (member, name) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), unraw(ident)),
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        let attributes = FieldAttributes::parse(&field.attrs)?;
        if let (None, Some(alias)) = (&field.ident, attributes.aliases.first()) {
            return Err(Error::new(
                alias.span(),
                "fields of a tuple are matched by position: they have no names",
            ));
        }
        Ok(Self { member, name, ty: &field.ty, attributes, span: field.ty.span() })
    }

    fn is_saved(&self) -> bool {
        self.attributes.skip.is_none()
    }

    /// The type whose schema and codec the field has.
    fn saved(&self, krate: &Path) -> TokenStream {
        let ty = self.ty;
        match &self.attributes.with {
            Some(with) => quote_spanned!(self.span=> <#with as #krate::__private::Adapter<#ty>>::Saved),
            None => quote_spanned!(self.span=> #ty),
        }
    }

    fn schema(&self, krate: &Path) -> TokenStream {
        let saved = self.saved(krate);
        quote_spanned!(self.span=> <#saved as #krate::__private::Persist>::schema(__types))
    }

    /// Writes the field that `place`, a reference, points to.
    fn encode(&self, krate: &Path, place: &TokenStream) -> TokenStream {
        let ty = self.ty;
        match &self.attributes.with {
            Some(with) => quote_spanned! {self.span=>
                match <#with as #krate::__private::Adapter<#ty>>::save(#place) {
                    ::core::result::Result::Ok(__saved) => #krate::__private::Persist::encode(&__saved, __out),
                    ::core::result::Result::Err(__error) => __out.fail(__error),
                }
            },
            None => quote_spanned!(self.span=> <#ty as #krate::__private::Persist>::encode(#place, __out);),
        }
    }

    fn decode(&self, krate: &Path) -> TokenStream {
        let (ty, name) = (self.ty, &self.name);
        if !self.is_saved() {
            return self.default();
        }
        let read = match &self.attributes.with {
            Some(with) => {
                let saved = self.saved(krate);
                quote_spanned! {self.span=>
                    <#saved as #krate::__private::Persist>::decode(__input)
                        .and_then(|__saved| <#with as #krate::__private::Adapter<#ty>>::load(__saved, __input.context()))
                }
            }
            None => quote_spanned!(self.span=> <#ty as #krate::__private::Persist>::decode(__input)),
        };
        quote_spanned!(self.span=> #read.map_err(|__error| __error.in_field(#name))?)
    }

    fn default(&self) -> TokenStream {
        match &self.attributes.default {
            // In a function of its own, so that nothing in the expression can leave the one it stands in.
            Some(Some(value)) => {
                let ty = self.ty;
                quote_spanned!(self.span=> { let __default: fn() -> #ty = || #value; __default() })
            }
            _ => quote_spanned!(self.span=> ::core::default::Default::default()),
        }
    }

    /// The schema's field with its rules.
    fn field(&self, krate: &Path) -> TokenStream {
        let name = if matches!(self.member, Member::Named(_)) { &*self.name } else { "" };
        let (schema, ty) = (self.schema(krate), self.ty);
        let aliases = self.attributes.aliases.iter();
        let default = match (&self.attributes.default, &self.attributes.with) {
            (Some(_), _) => {
                let (value, place) = (self.default(), quote!(&__value));
                let encode = self.encode(krate, &place);
                quote_spanned!(self.span=> .default(|__out| { let __value: #ty = #value; #encode }))
            }
            // The type's own, if it has one.
            (None, None) => quote!(.default_if((&#krate::__private::DefaultOf::<#ty>::NEW).default())),
            (None, Some(with)) => {
                quote!(.default_if((&#krate::__private::DefaultThrough::<#ty, #with>::NEW).default()))
            }
        };
        quote!({
            use #krate::__private::{HasDefault as _, NoDefault as _};
            #krate::__private::Field::new(#name, #schema) #(.alias(#aliases))* #default
        })
    }
}

fn unraw(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map_or_else(|| text.clone(), str::to_owned)
}

/// The `Type` of fields, in a scope where `types` is the schema builder.
fn fields_type(krate: &Path, fields: &Fields, parts: &[Part<'_>], removed: &[LitStr]) -> TokenStream {
    let saved = parts.iter().filter(|part| part.is_saved()).map(|part| part.field(krate));
    let saved = quote!(#krate::__private::Fields::from(::std::vec![#(#saved),*]) #(.removed(#removed))*);
    match fields {
        Fields::Named(_) => quote!(#krate::__private::Type::Struct(#saved)),
        Fields::Unnamed(_) => quote!(#krate::__private::Type::Tuple(#saved)),
        Fields::Unit => quote!(#krate::__private::Type::Unit),
    }
}

/// A name of the past must not be one of the present.
fn check_names(fields: &Fields, parts: &[Part<'_>], removed: &[LitStr]) -> Result<()> {
    if let (Some(name), false) = (removed.first(), matches!(fields, Fields::Named(_))) {
        return Err(Error::new(name.span(), "only a field with a name can be named as removed"));
    }
    for name in removed {
        let text = name.value();
        let taken = |part: &&Part<'_>| {
            part.name == text || part.attributes.aliases.iter().any(|alias| alias.value() == text)
        };
        if parts.iter().filter(|part| part.is_saved()).any(|part| taken(&part)) {
            return Err(Error::new(name.span(), "a field has this name: what was removed cannot be here"));
        }
    }
    let mut seen = std::collections::HashSet::new();
    for part in parts.iter().filter(|part| part.is_saved() && matches!(part.member, Member::Named(_))) {
        seen.insert(part.name.clone());
    }
    for alias in parts.iter().flat_map(|part| &part.attributes.aliases) {
        if !seen.insert(alias.value()) {
            return Err(Error::new(alias.span(), "two fields claim this name"));
        }
    }
    Ok(())
}

fn structure(krate: &Path, fields: &Fields, removed: &[LitStr]) -> Result<TokenStream> {
    let parts = Part::of(fields)?;
    check_names(fields, &parts, removed)?;
    let ty = fields_type(krate, fields, &parts, removed);
    let saved = || parts.iter().filter(|part| part.is_saved());
    let encode = saved().map(|part| {
        let member = &part.member;
        part.encode(krate, &quote_spanned!(part.span=> &self.#member))
    });
    let decode = parts.iter().map(|part| {
        let (member, value) = (&part.member, part.decode(krate));
        quote!(#member: #value)
    });
    let saved_fields = saved().map(|part| {
        let (member, ty, with) = (&part.member, part.ty, part.attributes.with.iter());
        quote_spanned!(part.span=> #member: #ty #(, #with)*;)
    });
    let skipped_fields = parts.iter().filter(|part| !part.is_saved()).map(|part| {
        let (member, value) = (&part.member, part.default());
        quote_spanned!(part.span=> #member: #value;)
    });
    // A handle around a reference is a reference to nothing when its only field is.
    let is_null = match &*parts {
        [Part { member, ty, attributes, .. }] if attributes.skip.is_none() && attributes.with.is_none() => {
            quote! {
                #[inline]
                fn is_null(&self) -> bool {
                    <#ty as #krate::__private::Persist>::is_null(&self.#member)
                }
            }
        }
        _ => quote!(),
    };
    Ok(quote! {
        #is_null
        const LAYOUT: #krate::__private::LayoutOf<Self> = #krate::__private::struct_layout! {
            saved { #(#saved_fields)* }
            skipped { #(#skipped_fields)* }
        };
        fn schema(__types: &mut #krate::__private::SchemaBuilder) -> #krate::__private::Node {
            __types.define::<Self>(|__types| #ty)
        }
        #[inline]
        fn encode(&self, __out: &mut #krate::__private::Writer) {
            let _ = &__out;
            #(#encode)*
        }
        #[inline]
        fn decode(__input: &mut #krate::__private::Reader<'_>) -> #krate::__private::Result<Self> {
            let _ = &__input;
            ::core::result::Result::Ok(Self { #(#decode),* })
        }
    })
}

fn enumeration(krate: &Path, name: &Ident, data: &syn::DataEnum, input: &DeriveInput) -> Result<TokenStream> {
    if data.variants.is_empty() {
        return Err(Error::new(name.span(), "an enum without variants has no values to save"));
    }
    let mut types = Vec::new();
    let mut encode = Vec::new();
    let mut decode = Vec::new();
    for (number, variant) in data.variants.iter().enumerate() {
        let attributes = FieldAttributes::parse_variant(&variant.attrs)?;
        let (ident, text, number) = (&variant.ident, unraw(&variant.ident), number as u64);
        let parts = Part::of(&variant.fields)?;
        let aliases = attributes.aliases.iter();
        check_names(&variant.fields, &parts, &[])?;
        let ty = fields_type(krate, &variant.fields, &parts, &[]);
        types.push(quote! {
            {
                let __content = #ty;
                #krate::__private::Variant::new(#text, __types.add(__content)) #(.alias(#aliases))*
            }
        });
        let patterns = parts.iter().enumerate().map(|(i, part)| {
            let member = &part.member;
            match part.is_saved() {
                true => {
                    let binding = format_ident!("__field_{i}");
                    quote!(#member: #binding)
                }
                false => quote!(#member: _),
            }
        });
        let writes = parts.iter().enumerate().filter(|(_, part)| part.is_saved()).map(|(i, part)| {
            let binding = format_ident!("__field_{i}");
            part.encode(krate, &quote!(#binding))
        });
        let content =
            (parts.iter().any(Part::is_saved)).then(|| quote!(__out.nested(|__out| { #(#writes)* });));
        encode.push(quote! {
            Self::#ident { #(#patterns),* } => {
                __out.varint(#number);
                #content
            }
        });
        let reads = parts.iter().map(|part| {
            let (member, value) = (&part.member, part.decode(krate));
            quote!(#member: #value)
        });
        let make = quote!(::core::result::Result::Ok(Self::#ident { #(#reads),* }));
        decode.push(match parts.iter().any(Part::is_saved) {
            true => quote! {
                #number => __input.nested(|__input| #make).map_err(|__error: #krate::__private::Error| __error.in_field(#text))
            },
            false => quote!(#number => #make),
        });
    }
    let count = data.variants.len();
    // An enum without data is one byte per row, if the compiler numbers its variants as we do.
    let layout = data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)).then(|| {
        let variants = data.variants.iter().map(|variant| &variant.ident);
        quote! {
            const LAYOUT: #krate::__private::LayoutOf<Self> =
                #krate::__private::unit_enum_layout!(#(#variants),*);
        }
    });
    let layout = layout.filter(|_| input.generics.params.is_empty());
    Ok(quote! {
        #layout
        fn schema(__types: &mut #krate::__private::SchemaBuilder) -> #krate::__private::Node {
            __types.define::<Self>(|__types| #krate::__private::Type::Enum(::std::vec![#(#types),*]))
        }
        fn encode(&self, __out: &mut #krate::__private::Writer) {
            match self { #(#encode)* }
        }
        fn decode(__input: &mut #krate::__private::Reader<'_>) -> #krate::__private::Result<Self> {
            match __input.varint()? {
                #(#decode,)*
                __number => ::core::result::Result::Err(
                    __input.corrupt(::std::format!("variant {__number} of {}", #count)),
                ),
            }
        }
    })
}
