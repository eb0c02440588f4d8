//! Pictures that the tool has drawn.

use std::path::Path;

pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    pub(crate) fn read(path: &Path) -> Self {
        let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        Self { width: info.width as usize, height: info.height as usize, pixels }
    }

    /// From the upper left corner.
    pub(crate) fn at(&self, x: usize, y: usize) -> [u8; 3] {
        assert!(x < self.width && y < self.height);
        let at = (y * self.width + x) * 3;
        self.pixels[at..at + 3].try_into().unwrap()
    }
}
