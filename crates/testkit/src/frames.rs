//! Where one message of the servers' protocol ends and the next begins, in both versions of it.

/// Cuts a stream of bytes into whole frames.
///
/// A stream that does not begin like the protocol, TLS for instance, passes uncut.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    nature: Nature,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Nature {
    #[default]
    Unknown,
    Protocol,
    Opaque,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.nature == Nature::Unknown {
            self.nature = match bytes.first() {
                Some(first) if is_marker(*first) => Nature::Protocol,
                Some(_) => Nature::Opaque,
                None => Nature::Unknown,
            };
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        match self.nature {
            Nature::Unknown => None,
            Nature::Opaque => self.take_rest(),
            Nature::Protocol => {
                let len = frame_len(&self.bytes)?;
                let rest = self.bytes.split_off(len);
                Some(std::mem::replace(&mut self.bytes, rest))
            }
        }
    }

    /// The bytes that are left, a whole frame or not.
    pub(crate) fn take_rest(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}

/// Whether a frame is a push: one that the server sends without a request.
pub(crate) fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// Whether a frame brings a published message, and not the confirmation of a subscription.
pub(crate) fn is_message_push(frame: &[u8]) -> bool {
    is_push(frame)
        && word(frame)
            .is_some_and(|word| [&b"message"[..], b"pmessage", b"smessage"].contains(&word))
}

/// Whether a command is answered by pushes alone, in version 3.
pub(crate) fn is_subscription(command: &[u8]) -> bool {
    word(command).is_some_and(|word| word.to_ascii_lowercase().ends_with(b"subscribe"))
}

/// The first string in a frame that is a list.
fn word(frame: &[u8]) -> Option<&[u8]> {
    let (_, rest) = line(frame)?;
    let (header, rest) = line(rest)?;
    match header.split_first()? {
        (b'$', digits) => rest.get(..usize::try_from(number(digits)?).ok()?),
        (b'+', word) => Some(word),
        _ => None,
    }
}

fn is_marker(byte: u8) -> bool {
    b"+-:$*_#,(!=%~>|".contains(&byte)
}

/// The length of the frame that `bytes` begins with; `None` as long as it is not whole.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let (header, rest) = line(bytes)?;
    let (marker, digits) = header.split_first()?;
    let header_len = bytes.len() - rest.len();
    let count = || number(digits).unwrap_or(-1).max(0);
    let body_len = match marker {
        b'$' | b'!' | b'=' if number(digits)? < 0 => 0,
        b'$' | b'!' | b'=' => usize::try_from(count()).ok()? + 2,
        b'*' | b'~' | b'>' => frames_len(rest, count())?,
        b'%' => frames_len(rest, 2 * count())?,
        // An attribute belongs to the reply that follows it.
        b'|' => frames_len(rest, 2 * count() + 1)?,
        _ => 0,
    };
    (rest.len() >= body_len).then_some(header_len + body_len)
}

fn frames_len(bytes: &[u8], count: i64) -> Option<usize> {
    let mut len = 0;
    for _ in 0..count {
        len += frame_len(bytes.get(len..)?)?;
    }
    Some(len)
}

/// The first line, without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn number(digits: &[u8]) -> Option<i64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n";
    const CONFIRMATION: &[u8] = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    const FRAMES: [&[u8]; 14] = [
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":1\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b"$3\r\na\r\n\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
        b"%1\r\n+a\r\n~1\r\n:1\r\n",
        b"|1\r\n+ttl\r\n:1\r\n+OK\r\n",
        MESSAGE,
    ];

    #[test]
    fn a_stream_is_cut_into_frames_wherever_it_is_broken() {
        let stream = FRAMES.concat();

        for piece_len in 1..=stream.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in stream.chunks(piece_len) {
                frames.push(piece);
                seen.extend(std::iter::from_fn(|| frames.take()));
            }
            assert_eq!(seen, FRAMES, "in pieces of {piece_len}");
            assert_eq!(frames.take_rest(), None);
        }
    }

    #[test]
    fn a_stream_that_is_not_the_protocol_passes_uncut() {
        let mut frames = Frames::default();

        frames.push(b"\x16\x03\x01");
        assert_eq!(frames.take().unwrap(), b"\x16\x03\x01");
        frames.push(b"*3");
        assert_eq!(frames.take().unwrap(), b"*3");
    }

    #[test]
    fn messages_are_distinguished_from_confirmations_and_replies() {
        assert!(is_message_push(MESSAGE));
        assert!(!is_message_push(CONFIRMATION));
        assert!(is_push(CONFIRMATION));
        assert!(!is_push(b"*1\r\n$7\r\nmessage\r\n"));
        assert!(!is_message_push(b"*1\r\n$7\r\nmessage\r\n"));
    }

    #[test]
    fn commands_that_only_pushes_answer_are_known() {
        assert!(is_subscription(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"));
        assert!(is_subscription(b"*1\r\n$12\r\nsunsubscribe\r\n"));
        assert!(!is_subscription(b"*1\r\n$4\r\nPING\r\n"));
    }
}
