//! How the settings of two worlds differ, dimension by dimension.

use bonfire_chunks::ChunkWorld;

use crate::chunks::count;
use crate::chunks::dimension::DimensionFacts;
use crate::escape::escaped;

/// A setting with its values in the first and in the second world.
pub(super) type Setting = (String, String, String);

/// Returns the settings that are different.
pub(super) fn differences(one: &ChunkWorld, other: &ChunkWorld) -> Vec<Setting> {
    let of_world = |world: &ChunkWorld| {
        let info = world.info();
        [("plain layout", info.compat.to_string()), ("sealed", info.sealed.to_string())]
    };
    let of_dimensions = |world: &ChunkWorld| DimensionFacts::all(&world.info());
    let (first, second) = (of_dimensions(one), of_dimensions(other));
    let mut settings = Vec::new();
    for dimension in &first {
        match second.iter().find(|other| other.number == dimension.number) {
            Some(other) => add(&mut settings, dimension.number, of(dimension), of(other)),
            None => settings.push((title(dimension.number), presence(dimension), "none".to_owned())),
        }
    }
    let is_new = |other: &&DimensionFacts| first.iter().all(|dimension| dimension.number != other.number);
    for dimension in second.iter().filter(is_new) {
        settings.push((title(dimension.number), "none".to_owned(), presence(dimension)));
    }
    add(&mut settings, 0, of_world(one), of_world(other));
    settings
}

fn add<const N: usize>(
    settings: &mut Vec<Setting>,
    dimension: u32,
    one: [(&str, String); N],
    other: [(&str, String); N],
) {
    for ((name, one), (_, other)) in one.into_iter().zip(other).filter(|((_, one), (_, other))| one != other)
    {
        let name = if dimension == 0 { name.to_owned() } else { format!("{}: {name}", title(dimension)) };
        settings.push((name, one, other));
    }
}

fn title(dimension: u32) -> String {
    format!("dimension {dimension}")
}

fn presence(dimension: &DimensionFacts) -> String {
    let chunks = count(dimension.chunks, "chunk", "chunks");
    format!("{chunks} of {} cells", dimension.cells_text())
}

fn of(dimension: &DimensionFacts) -> [(&'static str, String); 8] {
    let layers = dimension.layers.layers().iter().map(|layer| {
        format!("{} ({} bytes, version {})", escaped(layer.name()), layer.bytes(), layer.version())
    });
    let materials = dimension.layers.materials().map(|(_, names)| {
        let names = names.iter().map(|(id, name)| format!("{id} {}", escaped(name)));
        names.collect::<Vec<_>>().join(", ")
    });
    let none = || "none".to_owned();
    [
        ("seed", dimension.seed.to_string()),
        ("coordinates", dimension.coordinates().to_string()),
        ("chunk size", dimension.chunk_size.to_string()),
        ("tile size", dimension.tile_size.to_string()),
        ("layers", layers.collect::<Vec<_>>().join(", ")),
        ("materials", materials.unwrap_or_else(none)),
        ("generator", dimension.generator.as_deref().map_or_else(none, escaped)),
        ("generator version", dimension.layers.generator_version().to_string()),
    ]
}
