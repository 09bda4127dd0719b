use std::borrow::Cow;

use serde_json::Value;

use crate::node::{JsonFault, Node};

/// A part of a message's content.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Text(Cow<'a, str>),
    /// The text with which a model refused the request.
    Refusal(Cow<'a, str>),
    Image(Image<'a>),
}

/// An image in a message.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    pub(crate) source: ImageSource<'a>,
    /// OpenAI's detail level: `low`, `high` or `auto`.
    pub(crate) detail: Option<&'a str>,
    /// The original URL, which is a data URL or a URL to fetch.
    pub(crate) url: &'a str,
}

#[derive(Debug)]
pub(crate) enum ImageSource<'a> {
    /// The image is contained in a data URL.
    Inline {
        /// The media type in lower case, without parameters, such as `image/png`.
        media_type: String,
        /// The data of the image in Base64.
        data: &'a str,
    },
    /// The provider fetches the image from the URL.
    Url,
}

/// Returns the parts of the `content` of `message`, without empty text; empty if the content is
/// absent.
pub(super) fn parse_content<'a>(message: &Node<'a>) -> Result<Vec<Part<'a>>, JsonFault> {
    let Some(content) = message.optional("content")? else {
        return Ok(Vec::new());
    };
    let mut parts = match content.value() {
        Value::String(text) => vec![Part::Text(Cow::Borrowed(text))],
        Value::Array(_) => content
            .items()?
            .map(|part| parse_part(&part))
            .collect::<Result<_, _>>()?,
        _ => return Err(content.wrong_type("a string or an array")),
    };
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    Ok(parts)
}

/// Prepends the name of the speaker to the text, because only OpenAI's Chat Completions have a
/// separate member for the name.
pub(super) fn prepend_name(parts: &mut Vec<Part<'_>>, name: &str) {
    if name.is_empty() || parts.is_empty() {
        return;
    }
    match parts.first_mut() {
        Some(Part::Text(text)) => *text = Cow::Owned(format!("{name}: {text}")),
        _ => parts.insert(0, Part::Text(Cow::Owned(format!("{name}:")))),
    }
}

fn parse_part<'a>(part: &Node<'a>) -> Result<Part<'a>, JsonFault> {
    let kind = part.required("type")?;
    match kind.text()? {
        "text" => Ok(Part::Text(part.required("text")?.text()?.into())),
        "refusal" => Ok(Part::Refusal(part.required("refusal")?.text()?.into())),
        "image_url" => parse_image(&part.required("image_url")?),
        _ => Err(kind.invalid("must be one of text, image_url and refusal")),
    }
}

fn parse_image<'a>(image: &Node<'a>) -> Result<Part<'a>, JsonFault> {
    let url_node = image.required("url")?;
    let url = url_node.text()?;
    let detail = image
        .optional("detail")?
        .map(|node| node.text())
        .transpose()?;
    let source = match parse_scheme(url).as_deref() {
        Some("https" | "http") => ImageSource::Url,
        Some("data") => parse_data_url(url)
            .ok_or_else(|| url_node.invalid("must be a base64 data URL of an image"))?,
        _ => return Err(url_node.invalid("must be a data, http or https URL")),
    };
    Ok(Part::Image(Image {
        source,
        detail,
        url,
    }))
}

fn parse_scheme(url: &str) -> Option<String> {
    url.split_once(':')
        .map(|(scheme, _)| scheme.to_ascii_lowercase())
}

/// Parses `data:image/png;base64,...`.
fn parse_data_url(url: &str) -> Option<ImageSource<'_>> {
    let (header, data) = url.split_once(',')?;
    let (_, media_type_and_parameters) = header.split_once(':')?;
    let mut parameters = media_type_and_parameters.split(';');
    let media_type = parameters.next()?.trim().to_ascii_lowercase();
    let is_base64 = parameters.any(|parameter| parameter.trim().eq_ignore_ascii_case("base64"));
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
    let has_valid_data = !data.is_empty() && data.bytes().all(is_valid);
    (is_base64 && has_valid_data && media_type.starts_with("image/"))
        .then_some(ImageSource::Inline { media_type, data })
}
