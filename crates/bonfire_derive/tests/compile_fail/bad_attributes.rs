use bonfire::Persist;

#[derive(Persist)]
#[persist(key = "")]
struct EmptyKey;

#[derive(Persist)]
#[persist(key = "game.a", version = 0)]
struct VersionZero;

#[derive(Persist)]
#[persist(version = 2)]
struct VersionWithoutKey;

#[derive(Persist)]
#[persist(name = "game.b")]
struct UnknownTypeAttribute;

#[derive(Persist)]
struct UnknownFieldAttribute {
    #[persist(rename = "hp")]
    health: f32,
}

#[derive(Persist)]
struct KeyOnField {
    #[persist(key = "hp")]
    health: f32,
}

#[derive(Persist)]
struct SkippedAlias {
    #[persist(skip, alias = "hp")]
    health: f32,
}

#[derive(Persist)]
struct AliasInTuple(#[persist(alias = "hp")] f32);

#[derive(Persist)]
enum SkippedVariant {
    #[persist(skip)]
    Gone,
    Here,
}

#[derive(Persist)]
#[persist(key = "game.slot<{U}>")]
struct UnknownParameter<T>(T);

#[derive(Persist)]
#[persist(key = "game.slot<{T>")]
struct OpenBrace<T>(T);

#[derive(Persist)]
#[persist(key = "game.slot<T}>")]
struct ClosingBrace<T>(T);

fn main() {}
