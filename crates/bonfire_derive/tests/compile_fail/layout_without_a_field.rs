//! A module in the place of the core can pass the macros of the derive on, and cannot leave fields out.

use bonfire::Persist;

mod liar {
    pub mod __private {
        pub use bonfire::__private::*;

        macro_rules! without_the_last_field {
            (saved { $member:tt: $type:ty; $($rest:tt)* } skipped { }) => {
                bonfire::__private::struct_layout! { saved { $member: $type; } skipped { } }
            };
        }
        pub(crate) use without_the_last_field as struct_layout;
    }
}

#[derive(Persist)]
#[persist(crate = liar)]
struct Pair {
    first: u32,
    second: Box<u32>,
}

fn main() {}
