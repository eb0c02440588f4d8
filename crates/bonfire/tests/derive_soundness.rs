//! A module that `#[persist(crate = ..)]` names can have items of its own in the place of the core's. Safe code must not
//! reach undefined behaviour through them.

use bonfire::Persist;
use bonfire::engine::LeafCheck;

/// Bonfire with another `Layout`, which says of every struct that all bytes are good.
#[allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "as a module of a game would look")]
mod liar {
    pub mod __private {
        pub use bonfire::__private::*;

        pub struct Layout;

        impl Layout {
            pub const fn aggregate(
                size: usize,
                _: &[(usize, bonfire::engine::Layout)],
            ) -> bonfire::engine::Layout {
                bonfire::engine::Layout::leaf(size, bonfire::engine::LeafCheck::Any)
            }
        }
    }
}

#[derive(Persist)]
#[persist(crate = liar)]
struct Switch {
    _on: bool,
}

#[test]
fn another_layout_under_the_name_of_the_real_one_promises_nothing() {
    let layout = Switch::LAYOUT.get();
    assert_eq!(layout.leaves().iter().map(|leaf| leaf.check).collect::<Vec<_>>(), [LeafCheck::Bool]);
}
