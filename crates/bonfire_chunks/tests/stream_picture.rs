//! A picture of the window has a square for each chunk, in the colour of its phase.

mod stream_support;

use bonfire_chunks::ChunkPos;
use bonfire_chunks::stream::{ChunkPhase, Focus, WindowPicture};
use bonfire_store::disk::MemoryDisk;
use stream_support::Session;

/// The colours in the middle of a chunk, and at its edge.
fn colors(picture: &WindowPicture, pos: (i32, i32)) -> Option<([u8; 3], [u8; 3])> {
    let (x, y) = picture.middle_of(pos)?;
    Some((picture.pixel(x, y).unwrap(), picture.pixel(x - 4, y - 4).unwrap()))
}

#[test]
fn each_chunk_is_a_square_of_its_phase() {
    let mut session = Session::start(&MemoryDisk::new());
    assert_eq!(session.stream.picture(0), None);
    session.stream.set_focus(1, Focus::new((0, 0), 1));
    session.settle();
    session.stream.add_ticket((2, 1));
    session.settle();
    let vote = session.stream.add_vote("collision").unwrap();
    session.stream.add_ticket((3, -1));
    session.until(|session| session.stream.phase((3, -1)) == Some(ChunkPhase::Staged));
    let picture = session.stream.picture(0).unwrap();
    // Five columns and three rows of nine pixels, with a gap around them.
    assert_eq!((picture.width, picture.height, picture.corner), (46, 28, ChunkPos::new(-1, 1)));
    assert_eq!(picture.pixels.len(), 46 * 28 * 3);
    let (active, staged) =
        (WindowPicture::color(ChunkPhase::Active), WindowPicture::color(ChunkPhase::Staged));
    assert_eq!(colors(&picture, (0, 0)), Some((WindowPicture::FOCUS, active)));
    assert_eq!(colors(&picture, (-1, 1)), Some((active, active)));
    assert_eq!(colors(&picture, (2, 1)), Some((active, WindowPicture::TICKET)));
    assert_eq!(colors(&picture, (3, -1)), Some((staged, WindowPicture::TICKET)));
    assert_eq!(colors(&picture, (3, 1)), Some((WindowPicture::BACKGROUND, WindowPicture::BACKGROUND)));
    // The row with the largest `y` is at the top.
    assert!(picture.middle_of((0, 1)).unwrap().1 < picture.middle_of((0, -1)).unwrap().1);
    assert_eq!((picture.middle_of((-2, 0)), picture.middle_of((4, 0))), (None, None));
    assert_eq!((picture.middle_of((0, 2)), picture.middle_of((0, -2))), (None, None));
    assert_eq!((picture.pixel(0, 0), picture.pixel(46, 0)), (Some(WindowPicture::BACKGROUND), None));
    let _ = vote;
}

#[test]
fn what_is_far_away_or_elsewhere_makes_no_large_picture() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.add_ticket((i32::MAX, i32::MIN));
    session.settle();
    let alone = session.stream.picture(0).unwrap();
    assert_eq!((alone.width, alone.height), (10, 10), "without a focus a chunk is the middle");
    session.stream.set_focus(1, Focus::new((0, 0), 1));
    session.settle();
    let picture = session.stream.picture(0).unwrap();
    assert_eq!((picture.width, picture.height), (28, 28));
    assert_eq!(picture.middle_of((i32::MAX, i32::MIN)), None);
    assert_eq!(session.stream.picture(3), None, "there is no such dimension");
}
