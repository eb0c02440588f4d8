//! Random lives of Bevy worlds, saved and loaded by every way of spawning.

mod common;

use bonfire_testkit::scale;
use bonfire_testkit::script::{check, check_restore, scripts};
use common::script::BevyWorld;
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn worlds_come_back_by_batches(script in scripts(60)) {
        check::<BevyWorld<128>>(&script)?;
    }

    #[test]
    fn worlds_come_back_one_by_one(script in scripts(60)) {
        check::<BevyWorld<0>>(&script)?;
    }

    #[test]
    fn worlds_come_back_when_there_are_more_sets_than_slots(script in scripts(60)) {
        check::<BevyWorld<2>>(&script)?;
    }
}

proptest! {
    // Ten thousand in all at full scale.
    #![proptest_config(config(50))]

    #[test]
    fn worlds_go_back_in_time(script in scripts(60), later in scripts(40)) {
        check_restore::<BevyWorld<128>>(&script, &later)?;
    }

    #[test]
    fn worlds_go_back_in_time_one_by_one(script in scripts(60), later in scripts(40)) {
        check_restore::<BevyWorld<0, true>>(&script, &later)?;
    }
}
