//! Versions that are none, and names that mean two things.

use bonfire::Persist;

#[derive(Persist)]
#[persist(key = "game.other")]
struct Other;

#[derive(Persist)]
#[persist(key = "game.health", version = 2, from = Other)]
struct FromAnotherKey;
impl From<Other> for FromAnotherKey {
    fn from(_: Other) -> Self {
        Self
    }
}

#[derive(Persist)]
#[persist(key = "game.speed", version = 2)]
struct SpeedV2;

#[derive(Persist)]
#[persist(key = "game.speed", version = 2, from = SpeedV2)]
struct FromTheSameVersion;
impl From<SpeedV2> for FromTheSameVersion {
    fn from(_: SpeedV2) -> Self {
        Self
    }
}

#[derive(Persist)]
#[persist(key = "game.speed", version = 1, from = SpeedV2)]
struct FromALaterVersion;
impl From<SpeedV2> for FromALaterVersion {
    fn from(_: SpeedV2) -> Self {
        Self
    }
}

#[derive(Persist)]
#[persist(key = "game.speed", version = 3, from = SpeedV2)]
struct WithoutFrom;

#[derive(Persist)]
#[persist(key = "game.speed", from = SpeedV2)]
struct WithoutVersion;

#[derive(Persist)]
#[persist(from = SpeedV2)]
struct WithoutKey;

#[derive(Persist)]
#[persist(key = "game.name", alias = "game.name")]
struct OwnAlias;

#[derive(Persist)]
#[persist(removed = "mana")]
struct BackAgain {
    mana: u8,
}

#[derive(Persist)]
struct TwoClaims {
    #[persist(alias = "a")]
    b: u8,
    #[persist(alias = "a")]
    c: u8,
}

#[derive(Persist)]
#[persist(removed = "0")]
struct NoNames(u8);

#[derive(Persist)]
#[persist(removed = "Gone")]
enum NotAField {
    Here,
}

#[derive(Persist)]
#[persist(key = "game.mesh", shared, dictionary)]
struct Both(Vec<u8>);

#[derive(Persist)]
#[persist(key = "game.mesh", shared)]
struct NotClone(Vec<u8>);

fn main() {}
