//! Codecs of a game see the hecs world when it is saved and loaded, in one session each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bonfire_hecs::core::Codec;
use bonfire_hecs::{Bonfire, Descriptor, LoadContext, LoadMode, Persist, Result, SaveContext, SaveOptions};
use hecs::{Entity, World};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank(u32);

#[derive(Persist, Clone, Copy)]
#[persist(key = "test.tag")]
struct Tag;

/// Saves how many entities the world has beside a rank.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicUsize; 2]>);

impl Codec<Rank> for Counted {
    type Saved = (u32, u32);
    type Session = u32;

    fn begin_save(&self, context: &SaveContext<'_>) -> Result<u32> {
        self.0[0].fetch_add(1, Relaxed);
        Ok(context.world::<World>().expect("a save has its world").len())
    }
    fn save(&self, entities: &mut u32, rank: &Rank, _: &SaveContext<'_>) -> Result<Option<(u32, u32)>> {
        Ok(Some((rank.0, *entities)))
    }
    fn end_save(&self, _: u32) -> Result<()> {
        self.0[1].fetch_add(1, Relaxed);
        Ok(())
    }
    fn begin_load(&self, context: &LoadContext<'_>) -> Result<u32> {
        Ok(context.world::<World>().expect("a load has its world").len())
    }
    fn load(&self, here: &mut u32, (rank, there): (u32, u32), _: &LoadContext<'_>) -> Result<Option<Rank>> {
        Ok(Some(Rank(rank * 100 + there * 10 + *here)))
    }
}

#[test]
fn a_codec_sees_the_world_in_one_session() {
    let codec = Counted::default();
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Tag>().unwrap();
    bonfire.persist_as::<Rank>(Descriptor::with_codec("test.rank", codec.clone())).unwrap();
    let mut world = World::new();
    world.spawn((Rank(1),));
    world.spawn((Rank(2), Tag));
    let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    assert_eq!([&codec.0[0], &codec.0[1]].map(|count| count.load(Relaxed)), [1, 1]);
    bonfire.load(&mut world, &snapshot, LoadMode::Merge).unwrap();
    let mut ranks: Vec<u32> =
        world.query_mut::<(Entity, &Rank)>().into_iter().map(|(_, rank)| rank.0).collect();
    ranks.sort_unstable();
    // The loaded ones: their rank, two entities there, and two here (before the load changed the world).
    assert_eq!(ranks, [1, 2, 122, 222]);
}
