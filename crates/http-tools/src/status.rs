use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};

/// A range of HTTP statuses, which is a single status, such as `404`, or a class, such as `"2XX"`.
///
/// ```
/// use pillion_http_tools::StatusRange;
/// let range: StatusRange = serde_json::from_str("\"4XX\"")?;
/// assert!(range.contains(404) && !range.contains(500));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StatusRange {
    #[serde(rename = "first")]
    first_status: u16,
    #[serde(rename = "last")]
    last_status: u16,
}

impl StatusRange {
    /// The statuses 200 to 299, which count as success by default.
    pub const SUCCESS: Self = Self {
        first_status: 200,
        last_status: 299,
    };

    /// Returns whether the range contains a status.
    #[must_use]
    pub fn contains(self, status: u16) -> bool {
        (self.first_status..=self.last_status).contains(&status)
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum StatusNotation {
            Number(u16),
            Text(String),
        }
        let invalid_status = |value: &str| {
            D::Error::custom(format!(
                "invalid status {value}: expected a number from 100 to 599, or a class such as \
                 \"2XX\""
            ))
        };
        let notation = StatusNotation::deserialize(deserializer)
            .map_err(|_| invalid_status("of another type"))?;
        match notation {
            StatusNotation::Number(status @ 100..=599) => Ok(Self {
                first_status: status,
                last_status: status,
            }),
            StatusNotation::Number(status) => Err(invalid_status(&status.to_string())),
            StatusNotation::Text(text) => match text.to_ascii_uppercase().as_bytes() {
                [class_digit @ b'1'..=b'5', b'X', b'X'] => {
                    let first_status = u16::from(class_digit - b'0') * 100;
                    Ok(Self {
                        first_status,
                        last_status: first_status + 99,
                    })
                }
                _ => Err(invalid_status(&format!("\"{text}\""))),
            },
        }
    }
}
