//! Compiles and runs the code of the guide in `docs/book`, chapter by chapter.
//!
//! Readers copy blocks out of the guide into programs that depend on `bevy`. This workspace builds a few crates of Bevy and not
//! all of it, so [`bevy`] re-exports them under the paths that a game uses. A block imports it in a hidden line.

pub mod bevy;
mod temporary_store;

pub use temporary_store::TemporaryStore;

macro_rules! chapters {
    ($($name:ident: $file:literal),* $(,)?) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../docs/book/src/", $file))]
        mod $name {}
    )*};
}

chapters! {
    introduction: "introduction.md",
    quick_start: "quick-start.md",
    concepts: "concepts.md",
    choosing: "choosing.md",
    references: "references.md",
    resources: "resources.md",
    slots: "slots.md",
    live_saving: "live-saving.md",
    loading_screens: "loading-screens.md",
    rewind: "rewind.md",
    evolving_saves: "evolving-saves.md",
    chunked_worlds: "chunked-worlds.md",
    streaming: "streaming.md",
    pixel_bodies: "pixel-bodies.md",
    sync: "sync.md",
    sealing: "sealing.md",
    tool: "tool.md",
    hecs: "hecs.md",
    own_engine: "own-engine.md",
    testing: "testing.md",
    performance: "performance.md",
    troubleshooting: "troubleshooting.md",
    platforms: "platforms.md",
    recipes: "recipes.md",
}
