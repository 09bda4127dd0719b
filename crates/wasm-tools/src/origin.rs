use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use url::Url;

/// Scheme, host and port of a URL, such as `https://api.example.com`.
///
/// ```
/// use pillion_wasm_tools::HttpOrigin;
/// let origin: HttpOrigin = "https://api.example.com:443/".parse()?;
/// assert_eq!(origin.to_string(), "https://api.example.com");
/// assert!("https://api.example.com/v1".parse::<HttpOrigin>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HttpOrigin(url::Origin, String);

impl HttpOrigin {
    pub(crate) fn contains(&self, url: &Url) -> bool {
        self.0 == url.origin()
    }
}

impl FromStr for HttpOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid_origin =
            || format!("'{text}' is not an origin, such as https://api.example.com");
        let url: Url = text.parse().map_err(|_| invalid_origin())?;
        let has_only_origin = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        match url.scheme() {
            "http" | "https" if has_only_origin => {
                let origin = url.origin();
                let serialized_origin = origin.ascii_serialization();
                Ok(Self(origin, serialized_origin))
            }
            _ => Err(invalid_origin()),
        }
    }
}

impl TryFrom<String> for HttpOrigin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for HttpOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl Serialize for HttpOrigin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.1)
    }
}
