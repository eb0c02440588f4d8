//! A colour for each material.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use bonfire_chunks::LayerSet;

use crate::exit::Failure;

pub(super) type Rgb = [u8; 3];

/// What nothing is: the sky at night.
const VOID: Rgb = [0x16, 0x1b, 0x2b];

/// Colours of materials whose names say what they are. The first word that a name contains counts.
const WORDS: &[(&str, Rgb)] = &[
    ("air", VOID),
    ("void", VOID),
    ("sky", [0x8d, 0xbb, 0xde]),
    ("cloud", [0xe9, 0xf0, 0xf6]),
    ("grass", [0x6a, 0xa8, 0x4f]),
    ("moss", [0x5b, 0x7f, 0x3a]),
    ("leaf", [0x3f, 0x8a, 0x4a]),
    ("leaves", [0x3f, 0x8a, 0x4a]),
    ("plank", [0xb9, 0x8a, 0x54]),
    ("wood", [0x7d, 0x58, 0x36]),
    ("log", [0x7d, 0x58, 0x36]),
    ("dirt", [0x7a, 0x58, 0x3e]),
    ("soil", [0x7a, 0x58, 0x3e]),
    ("mud", [0x5c, 0x46, 0x35]),
    ("clay", [0xa9, 0x76, 0x5b]),
    ("sand", [0xe0, 0xc6, 0x8a]),
    ("gravel", [0x8a, 0x83, 0x7c]),
    ("snow", [0xf2, 0xf6, 0xfa]),
    ("ice", [0xa9, 0xd8, 0xee]),
    ("water", [0x3d, 0x86, 0xc6]),
    ("lava", [0xf0, 0x6a, 0x2a]),
    ("fire", [0xff, 0x9d, 0x3c]),
    ("oil", [0x2c, 0x24, 0x2e]),
    ("acid", [0xa8, 0xd8, 0x3a]),
    ("coal", [0x26, 0x26, 0x2a]),
    ("iron", [0xc9, 0x8f, 0x6b]),
    ("copper", [0xd0, 0x7c, 0x4a]),
    ("gold", [0xf3, 0xc9, 0x3f]),
    ("silver", [0xc6, 0xcc, 0xd4]),
    ("crystal", [0x8f, 0xe3, 0xe8]),
    ("diamond", [0x8f, 0xe3, 0xe8]),
    ("ruby", [0xd6, 0x3f, 0x57]),
    ("brick", [0xa8, 0x4f, 0x43]),
    ("glass", [0xb8, 0xdc, 0xe6]),
    ("metal", [0x9a, 0xa3, 0xad]),
    ("bedrock", [0x33, 0x32, 0x3a]),
    ("rock", [0x76, 0x75, 0x7d]),
    ("stone", [0x76, 0x75, 0x7d]),
];

/// Which colour a material has.
pub(super) struct Palette {
    known: HashMap<u32, Rgb>,
    /// Colours of all others.
    others: fn(u32) -> Rgb,
}

impl Palette {
    /// The built-in one: by name where a name says something, else a colour of its own for each id.
    pub(super) fn built_in(set: &LayerSet, layer: &str) -> Self {
        let mut known = HashMap::from([(0, VOID)]);
        let materials = set.materials().filter(|(named, _)| named.name() == layer);
        for (id, name) in materials.map(|(_, names)| names).unwrap_or_default() {
            let name = name.to_lowercase();
            if let Some((_, colour)) = WORDS.iter().find(|(word, _)| name.contains(word)) {
                known.insert(*id, *colour);
            }
        }
        Self { known, others: distinct }
    }

    /// A palette by its name.
    pub(super) fn named(name: &str, set: &LayerSet, layer: &str) -> Option<Self> {
        Some(match name {
            "names" => Self::built_in(set, layer),
            "distinct" => Self { known: HashMap::new(), others: distinct },
            "grey" => Self { known: HashMap::new(), others: |id| [id.to_le_bytes()[0]; 3] },
            _ => return None,
        })
    }

    /// Adds the lines of a file. Returns the names that this world does not have.
    pub(super) fn read(&mut self, path: &Path, set: &LayerSet) -> Result<Vec<String>, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
        self.add(&text, set).map_err(|message| Failure::file(path, message))
    }

    fn add(&mut self, text: &str, set: &LayerSet) -> Result<Vec<String>, String> {
        let names = set.materials().map(|(_, names)| names).unwrap_or_default();
        let ids: HashMap<&str, u32> = names.iter().map(|(id, name)| (name.as_str(), *id)).collect();
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || format!("line {number} is not `id #rrggbb` or `name #rrggbb`");
            let (material, colour) = line.rsplit_once(char::is_whitespace).ok_or_else(wrong)?;
            let (material, colour) = (material.trim_end(), parse(colour).ok_or_else(wrong)?);
            if !seen.insert(material) {
                return Err(format!("line {number} has `{material}` a second time"));
            }
            match material.parse().ok().or_else(|| ids.get(material).copied()) {
                Some(id) => drop(self.known.insert(id, colour)),
                None => unknown.push(material.to_owned()),
            }
        }
        Ok(unknown)
    }

    pub(super) fn colour(&self, id: u32) -> Rgb {
        self.known.get(&id).copied().unwrap_or_else(|| (self.others)(id))
    }
}

fn parse(colour: &str) -> Option<Rgb> {
    let digits = colour.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let mut rgb = [0; 3];
    for (byte, pair) in rgb.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(rgb)
}

/// Hues that are far apart for ids that follow each other, in three tones.
fn distinct(id: u32) -> Rgb {
    let hue = (f64::from(id) * 0.618_033_988_749_895).fract() * 6.0;
    let (saturation, value) = [(0.45, 0.86), (0.6, 0.68), (0.35, 0.95)][id as usize % 3];
    let channel = |shift: f64| {
        let near = ((hue + shift) % 6.0 - 3.0).abs() - 1.0;
        let part = value * (1.0 - saturation * (1.0 - near.clamp(0.0, 1.0)));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 255")]
        let byte = (part * 255.0).round().clamp(0.0, 255.0) as u8;
        byte
    };
    [channel(0.0), channel(4.0), channel(2.0)]
}

#[cfg(test)]
mod tests {
    use bonfire_chunks::{Layer, Layers, Persistence};

    use super::*;

    fn set() -> LayerSet {
        let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
        let layers = layers.materials("material", [(0, "game.air"), (7, "game.deep water"), (8, "zorp")]);
        layers.set(0, &[]).expect("these layers can be")
    }

    #[test]
    fn names_that_say_something_have_the_colour_of_it() {
        let palette = Palette::built_in(&set(), "material");
        assert_eq!(palette.colour(7), [0x3d, 0x86, 0xc6]);
        assert_eq!(palette.colour(8), distinct(8));
        assert_eq!(Palette::built_in(&set(), "other").colour(7), distinct(7));
    }

    #[test]
    fn the_first_ids_have_colours_of_their_own() {
        let colours: HashSet<Rgb> = (0..=255).map(distinct).collect();
        assert!(colours.len() > 250, "{}", colours.len());
    }

    #[test]
    fn a_file_has_ids_names_and_comments() {
        let mut palette = Palette::built_in(&set(), "material");
        let text = "# sea\ngame.deep water  #010203\n\n 8 #ffffff\nlost #000000\n";
        assert_eq!(palette.add(text, &set()), Ok(vec!["lost".to_owned()]));
        assert_eq!((palette.colour(7), palette.colour(8)), ([1, 2, 3], [255; 3]));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line) in
            [("1 #12345", "line 1"), ("\n1 red", "line 2"), ("#\n1", "line 2"), ("1 #00000é", "line 1")]
        {
            let error = Palette::built_in(&set(), "material").add(text, &set()).unwrap_err();
            assert!(error.starts_with(line), "{error}");
        }
        let twice = Palette::built_in(&set(), "material").add("1 #000000\n1 #000001", &set());
        assert!(twice.is_err_and(|error| error.contains("second time")));
    }
}
