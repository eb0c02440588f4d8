//! What the newest release of the game makes of the save of each release, written down by hand.

use std::collections::BTreeMap;

use bonfire::EntityId;
use bonfire_testkit::ModelWorld;
use bonfire_testkit::life::NAMES;
use bonfire_testkit::life::v10::*;

/// Everything that an entity has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) unit: Option<Unit>,
    pub(crate) place: Option<Place>,
    pub(crate) mood: Option<Mood>,
    pub(crate) inventory: Option<Inventory>,
    pub(crate) follows: Option<Follows>,
    pub(crate) strength: Option<Strength>,
    pub(crate) senses: Option<Senses>,
    pub(crate) bio: Option<Bio>,
    pub(crate) tags: Option<Tags>,
    pub(crate) banner: Option<Banner>,
    pub(crate) job: Option<Job>,
    pub(crate) damp: Option<Damp>,
    pub(crate) selected: Option<Selected>,
}

/// Everything that a world has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Colony {
    pub(crate) members: Vec<(EntityId, Member)>,
    pub(crate) clock: Option<Clock>,
    pub(crate) sky: Option<Sky>,
}

impl Colony {
    /// The world as it is.
    pub(crate) fn of(world: &ModelWorld) -> Self {
        let member = |id: EntityId| Member {
            unit: world.get(id).cloned(),
            place: world.get(id).cloned(),
            mood: world.get(id).cloned(),
            inventory: world.get(id).cloned(),
            follows: world.get(id).cloned(),
            strength: world.get(id).cloned(),
            senses: world.get(id).cloned(),
            bio: world.get(id).cloned(),
            tags: world.get(id).cloned(),
            banner: world.get(id).cloned(),
            job: world.get(id).cloned(),
            damp: world.get(id).cloned(),
            selected: world.get(id).cloned(),
        };
        Self {
            members: world.entities().into_iter().map(|id| (id, member(id))).collect(),
            clock: world.resource().cloned(),
            sky: world.resource().cloned(),
        }
    }

    /// What the save of a release must become.
    pub(crate) fn expected(release: u32) -> Self {
        let clock = match release {
            1..=3 => Clock(86_400 + u64::from(release), 1440),
            _ => Clock(5_000_000_000 + u64::from(release), 1440 + release as u16),
        };
        let sky = match release {
            1..=6 => None,
            7 => Some(Sky { rain: 0.5, wind: 3.0 }),
            _ => Some(Sky { rain: 0.25, wind: release as f32 }),
        };
        let members = (0..12).map(|i| (id(i), Member::expected(release, i))).collect();
        Self { members, clock: Some(clock), sky }
    }
}

/// What the data entry of a release must become.
pub(crate) fn settings(release: u32) -> Settings {
    let volume = 10 + release as u8;
    let of =
        |music, effects, speed, language: &str| Settings { music, effects, speed, language: language.into() };
    match release {
        1..=3 => of(volume, volume, 2.0, "en"),
        4..=8 => of(volume, volume, 1.5, "de"),
        _ => of(release as u8, 70, 0.5, "fr"),
    }
}

/// Slot 5 is taken for the second time.
pub(crate) fn id(i: u32) -> EntityId {
    EntityId::new(i, u32::from(i == 5))
}

impl Member {
    fn expected(release: u32, i: u32) -> Self {
        let lives = i < 10;
        let old_body = release <= 5;
        Self {
            unit: lives.then(|| unit(release, i)),
            place: Some(place(release, i)),
            mood: lives.then(|| match (i % 3, i, release) {
                (_, 9, 8..) => Mood::Tired { by: Some(id(8)), since: 700 },
                (0, ..) => Mood::Calm,
                (1, ..) => Mood::Angry,
                _ => Mood::Scared,
            }),
            inventory: inventory(release, i),
            follows: follows(release, i),
            // Heavy bodies are stronger.
            strength: lives
                .then(|| Strength(if old_body { 3 + i as u8 + u8::from(i > 5) } else { 30 + i as u8 })),
            senses: lives.then(|| match old_body {
                true => Senses { sight: 20 + i as u16, hearing: 10 + i as u16 / 2 },
                false => Senses { sight: 40 + i as u16, hearing: 7 },
            }),
            bio: ["smith", "baker", "smith", "healer", "scout"].get(i as usize).map(|trade| Bio {
                home: format!("house {i}"),
                age: if release < 7 { 30 } else { 20 + i as u8 },
                trade: (*trade).into(),
            }),
            tags: tags(release, i),
            banner: i.is_multiple_of(2).then(|| banner(release, i)),
            job: (i < 8 && release > 1).then(|| Job {
                title: ["farmer", "miner", "cook"][i as usize % 3].into(),
                level: if release < 7 { 1 } else { 1 + i as u8 % 2 },
            }),
            damp: (i < 3 && release >= 7)
                .then_some(Damp { percent: if release == 7 { 25.0 * i as f32 } else { 10.0 * i as f32 } }),
            selected: None,
        }
    }
}

fn unit(release: u32, i: u32) -> Unit {
    let name = NAMES[i as usize];
    let (health, max) = match release {
        1 => (10.0 + 7.0 * i as f32, 100.0),
        2 | 3 => (10.0 + 7.0 * i as f32, 100.0 + i as f32),
        4 | 5 => (10.5 + 7.0 * i as f32, 70_000.0 + i as f32),
        6..=8 => (10.5 + i as f32, 60.5),
        _ => (9.5 + i as f32, 99.0),
    };
    let (armor, rival) = match release {
        10 => (i as f32, id((i + 1) % 10)),
        _ => (5.0, EntityId::NULL),
    };
    let title = ((7..=9).contains(&release) && i.is_multiple_of(5)).then(|| format!("Elder {name}"));
    Unit { name: name.into(), vitals: Vitals { armor, health, max }, title, rival }
}

fn place(release: u32, i: u32) -> Place {
    let (x, y) = (i as f32 * 0.5, -(i as f32));
    let looks = i.is_multiple_of(3);
    match release {
        1 => Place { at: [x, y, 1.5], facing: None },
        2..=8 => Place { at: [x, y, i as f32 * 0.25], facing: looks.then_some(45 * i as u16) },
        _ => Place { at: [i as f32, 2.0, -0.5], facing: looks.then_some(30 * i as u16) },
    }
}

fn inventory(release: u32, i: u32) -> Option<Inventory> {
    let item = |what: &str, count, quality| Item { what: what.into(), count, quality, enchants: vec![] };
    let own = i as u16;
    match (release, i % 2, i) {
        (1..=3, 1, _) => {
            Some(Inventory { items: vec![item("bread", i, 50), item("rope", 1, 50)], worn: BTreeMap::new() })
        }
        (4..=6, 1, _) => {
            let items = vec![item("bread", 300 + i, 50), item("rope", 1, 50)];
            Some(Inventory { items, worn: BTreeMap::new() })
        }
        (7..=8, 1, _) => {
            let items = vec![item("bread", 300 + i, own), item("rope", 1, own)];
            let worn = [(Slot::Head, item("hat", 1, own)), (Slot::Hand, item("axe", 2, own))];
            let worn = worn.into_iter().filter(|_| i % 4 == 1).collect();
            Some(Inventory { items, worn })
        }
        (9.., _, 1) => {
            let enchants = vec![Enchant { name: "light".into(), power: -3 }];
            let axe = Item { enchants, ..item("axe", 1, 1000) };
            Some(Inventory { items: vec![item("rope", 70_000, 51)], worn: [(Slot::Hand, axe)].into() })
        }
        _ => None,
    }
}

fn follows(release: u32, i: u32) -> Option<Follows> {
    // Whoever follows one who is gone follows nobody.
    let whom = match (release, i) {
        (..8, 1..=4) => (Some(id(i - 1)), 2.5),
        (..8, 6) => (Some(id(6)), 2.5),
        (..8, 7) => (None, 2.5),
        (..8, 8) => (Some(id(5)), 2.5),
        (8.., 1) => (Some(id(0)), 1.0),
        (8.., 2) => (None, 2.0),
        (8.., 7) => (None, 3.0),
        _ => return None,
    };
    Some(Follows(whom.0, whom.1))
}

fn tags(release: u32, i: u32) -> Option<Tags> {
    let list: &[&str] = match (release, i) {
        (..=8, 0) => &["brave"],
        (..=8, 3) => &["brave", "young"],
        (..=8, 6) => &[],
        (..=7, 9) => &["old", "wise", "tall"],
        (9.., 4) => &["late"],
        _ => return None,
    };
    let first = if release < 9 { list.first().copied() } else { Some("never") };
    Some(Tags { list: list.iter().map(|tag| (*tag).into()).collect(), first: first.map(Into::into) })
}

fn banner(release: u32, i: u32) -> Banner {
    let of = |text: &str, height, color: &[u8]| Banner { text: text.into(), height, color: color.into() };
    match (release, i / 2 % 2) {
        (10, _) => of("One", 4 + i as u8 % 4, &[1, 2]),
        (_, 0) => of("Red Hand", 3, &[200, 0, 0]),
        (..=3, _) => of("Blue Fist", 3, &[0, 0, 255]),
        _ => of("Blue Fist", 3, &[0, 0, 255, 128]),
    }
}
