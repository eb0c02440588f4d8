//! How payloads of messages are compressed.

use std::fmt;
use std::sync::Arc;

use bonfire::{Error, Result};

/// The smallest number of a codec that a game brings.
const GAME_CODEC_MIN: u8 = 128;

/// How payloads of messages are compressed. What does not become smaller is sent as it is.
#[derive(Clone, Default)]
pub enum MessageCompression {
    /// Not at all.
    #[default]
    None,
    /// LZ4. Needs the feature `lz4`.
    Lz4,
    /// A codec of the game's own. Receivers must know it: see [`MessageLimits::codecs`](crate::MessageLimits::codecs).
    Game(Arc<dyn MessageCodec>),
}

impl fmt::Debug for MessageCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Lz4 => f.write_str("Lz4"),
            Self::Game(codec) => write!(f, "Game({})", codec.number()),
        }
    }
}

/// A codec of the game's own for payloads of messages.
///
/// ```
/// use std::sync::Arc;
/// use bonfire_sync::{Error, MessageCodec, MessageCompression, Result};
///
/// /// Sends how many zeros there are at the end, and not the zeros.
/// struct TrailingZeros;
///
/// impl MessageCodec for TrailingZeros {
///     fn number(&self) -> u8 {
///         200
///     }
///     fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
///         let len = raw.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
///         out.extend_from_slice(&raw[..len]);
///         Ok(())
///     }
///     fn decompress(&self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
///         // `raw` is zero, and as long as the payload was.
///         let start = raw.get_mut(..stored.len()).ok_or_else(|| Error::custom("too long"))?;
///         start.copy_from_slice(stored);
///         Ok(())
///     }
/// }
///
/// let compression = MessageCompression::Game(Arc::new(TrailingZeros));
/// ```
pub trait MessageCodec: Send + Sync {
    /// Returns its number in messages, from 128 to 255. It means this codec for ever.
    fn number(&self) -> u8;

    /// Appends the compressed form of a payload to `out`.
    fn compress(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Decompresses a payload into `raw`, which holds zeros and has its length. The bytes come from a peer: a codec must
    /// return an error for bytes that it did not make, and must not panic.
    fn decompress(&self, stored: &[u8], raw: &mut [u8]) -> Result<()>;
}

/// The codecs of a game that a receiver knows.
#[derive(Clone, Default)]
pub struct MessageCodecs(Vec<Arc<dyn MessageCodec>>);

impl MessageCodecs {
    /// No codecs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a codec. One with the same number is replaced.
    pub fn with(mut self, codec: impl MessageCodec + 'static) -> Self {
        self.0.retain(|known| known.number() != codec.number());
        self.0.push(Arc::new(codec));
        self
    }

    /// Returns the codec with a number.
    pub(crate) fn find(&self, number: u8) -> Result<&dyn MessageCodec> {
        if number < GAME_CODEC_MIN {
            return Err(Error::corrupt(format!("codec {number} is not one of this version")));
        }
        match self.0.iter().find(|codec| codec.number() == number) {
            Some(codec) => Ok(&**codec),
            None => Err(Error::unsupported(format!(
                "a message is compressed with codec {number} of a game: add it to `MessageLimits::codecs`"
            ))),
        }
    }
}

impl fmt::Debug for MessageCodecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|codec| codec.number())).finish()
    }
}

/// Returns the number of a codec, or an error if no game may use it.
pub(crate) fn checked_number(codec: &dyn MessageCodec) -> Result<u8> {
    match codec.number() {
        number @ GAME_CODEC_MIN.. => Ok(number),
        number => Err(Error::misuse(format!("codec {number} of a game: numbers below 128 are Bonfire's"))),
    }
}
