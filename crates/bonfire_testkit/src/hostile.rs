//! Deltas as a hostile peer seals them: well-formed, with right checksums, and without sense. Entities that nobody told of, ids that go
//! and come, components that are told as resources, lists of anything.

use std::collections::HashSet;

use bonfire::engine::ComponentTable;
use bonfire::{EntityId, Writer};

/// Numbers that are always the same.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Other ones for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed * 7919)
    }
    /// A number below this one.
    pub fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % max
    }
    fn id(&mut self) -> EntityId {
        EntityId::new(self.below(7) as u32, 0)
    }
    fn ids(&mut self, max: u64) -> Vec<EntityId> {
        (0..self.below(max + 1)).map(|_| self.id()).collect()
    }
}

fn write_ids(out: &mut Writer, ids: &[EntityId]) {
    out.varint(ids.len() as u64);
    let mut before = 0_i64;
    for id in ids {
        let step = i64::from(id.index()) - before;
        before = i64::from(id.index());
        out.varint((((step << 1) ^ (step >> 63)) as u64) << 1);
    }
}

/// A shape and its values, as a peer may seal them: well-formed, and without sense.
fn shape(
    out: &mut Writer,
    values: &mut Writer,
    dice: &mut Dice,
    table: &ComponentTable,
    number: u32,
    op: u8,
    rows: usize,
) {
    let component = &table.components()[number as usize];
    out.varint(u64::from(number));
    if op == 0 {
        return out.u8(0);
    }
    let stride = component.row.stride as usize;
    let partial = rows > 1 && dice.below(3) == 0;
    let kind: u8 = match &*component.key {
        "test.enemy" => 0,
        _ if stride > 0 => 1,
        _ => 2,
    };
    out.u8(op | u8::from(partial) << 2 | kind << 4);
    let mut own = rows;
    if partial {
        let bits: Vec<bool> = (0..rows).map(|_| dice.below(2) == 0).collect();
        own = bits.iter().filter(|bit| **bit).count();
        let bytes =
            bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        out.raw(&bytes.collect::<Vec<u8>>());
    }
    let mut own_values = Writer::new();
    for _ in 0..own {
        match &*component.key {
            "test.enemy" => {}
            // No text, which is found only when everything is staged.
            "test.burning" if dice.below(12) == 0 => own_values.raw(&[1, 0xFF]),
            "test.burning" => own_values.raw(&[1, b'a' + dice.below(20) as u8]),
            "test.inventory" => own_values.raw(&[0, 0]),
            "test.score" => own_values.raw(&[dice.below(9) as u8, 0, 0, 0, 0, 0, 0, 0, 0]),
            _ if component.schema().unwrap().has_entities() => {
                own_values.u64(dice.id().to_bits());
            }
            _ => (0..stride).for_each(|_| own_values.u8(dice.below(5) as u8)),
        }
    }
    if kind == 2 {
        out.varint(own_values.as_bytes().len() as u64);
    }
    values.raw(own_values.as_bytes());
}

/// The content of a delta that no engine would make, about components with keys of the tests' own: `test.enemy` is a tag, `test.burning` a text,
/// `test.inventory` a list and an option, `test.score` a resource.
pub fn hostile_content(dice: &mut Dice, table: &ComponentTable) -> Vec<u8> {
    let (mut out, mut values) = (Writer::new(), Writer::new());
    let count = table.components().len() as u64;
    // Whether components are told as resources, and the other way round.
    let (confused, score) = (dice.below(4) == 0, table.number("test.score"));
    out.varint(0);
    let despawned = if dice.below(3) == 0 { dice.ids(3) } else { Vec::new() };
    write_ids(&mut out, &despawned);
    let groups = dice.below(4);
    out.varint(groups);
    let (repeats, mut told) = (dice.below(8) == 0, HashSet::new());
    for number in 0..groups as u32 {
        let spawned = dice.below(2) == 0;
        out.u8(u8::from(spawned));
        let mut ids = dice.ids(4);
        ids.push(dice.id());
        if !repeats {
            ids.retain(|id| told.insert(*id));
        }
        ids.extend(ids.is_empty().then(|| EntityId::new(100 + number, 0)));
        write_ids(&mut out, &ids);
        let mut numbers: Vec<u32> = (0..count as u32).filter(|_| dice.below(3) == 0).collect();
        if !confused {
            numbers.retain(|number| Some(*number) != score);
        }
        if numbers.is_empty() && !spawned {
            numbers.push(0);
        }
        out.varint(numbers.len() as u64);
        for number in numbers {
            let op = if spawned { 1 } else { dice.below(3) as u8 };
            shape(&mut out, &mut values, dice, table, number, op, ids.len());
        }
    }
    let mut lists: Vec<(u64, EntityId)> =
        (0..dice.below(3)).map(|_| (dice.below(count), dice.id())).collect();
    lists.sort();
    lists.dedup();
    out.varint(lists.len() as u64);
    for (component, target) in lists {
        out.varint(component);
        out.u64(target.to_bits());
        let sources = dice.ids(5);
        write_ids(&mut out, &sources);
    }
    let mut resources: Vec<u32> = (0..count as u32).filter(|_| dice.below(5) == 0).collect();
    if !confused {
        resources.retain(|number| Some(*number) == score);
    }
    out.varint(resources.len() as u64);
    for number in resources {
        let op = if dice.below(3) == 0 { 0 } else { 2 };
        shape(&mut out, &mut values, dice, table, number, op, 1);
    }
    out.u8(0);
    out.raw(values.as_bytes());
    out.as_bytes().to_vec()
}
