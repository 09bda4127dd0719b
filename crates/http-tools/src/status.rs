use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};

/// A range of HTTP statuses: a single status, such as `404`, or a class, such as `"2XX"`.
///
/// ```
/// use pillion_http_tools::StatusRange;
/// let range: StatusRange = serde_json::from_str("\"4XX\"")?;
/// assert!(range.contains(404) && !range.contains(500));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// The statuses 200 to 299, which count as success by default.
    pub const SUCCESS: Self = Self {
        first: 200,
        last: 299,
    };

    /// Returns whether the range contains a status.
    #[must_use]
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum StatusNotation {
            One(u16),
            Text(String),
        }
        let wrong = || {
            D::Error::custom("a status must be a number such as 404, or a class such as \"2XX\"")
        };
        match StatusNotation::deserialize(deserializer).map_err(|_| wrong())? {
            StatusNotation::One(status @ 100..=599) => Ok(Self {
                first: status,
                last: status,
            }),
            StatusNotation::One(_) => Err(wrong()),
            StatusNotation::Text(text) => match text.to_ascii_uppercase().as_bytes() {
                [hundred @ b'1'..=b'5', b'X', b'X'] => {
                    let first = u16::from(hundred - b'0') * 100;
                    Ok(Self {
                        first,
                        last: first + 99,
                    })
                }
                _ => Err(wrong()),
            },
        }
    }
}
