/// The parsed doc comment of a function.
pub(super) struct DocComment {
    /// The first paragraph of the comment, on one line.
    pub(super) summary: Option<String>,
    parameters: Vec<DocParameter>,
}

/// One `@param` tag of a doc comment.
struct DocParameter {
    name: String,
    kind: String,
    text: String,
    /// Whether the tag is `@phpstan-param` or `@psalm-param`, which are more precise than `@param`.
    exact: bool,
}

impl DocComment {
    /// Parses a doc comment including its `/**` and `*/`. Any other text gives an empty result.
    pub(super) fn parse(comment: &str) -> Self {
        let opened = comment.trim().strip_prefix("/**").unwrap_or_default();
        let text = opened.strip_suffix("*/").unwrap_or(opened);
        let lines = text.lines().map(|line| {
            let line = line.trim();
            line.strip_prefix('*').unwrap_or(line).trim()
        });
        let mut summary = Vec::new();
        let mut in_summary = true;
        let mut tags: Vec<String> = Vec::new();
        for line in lines {
            if line.starts_with('@') {
                tags.push(line.to_owned());
            } else if let Some(tag) = tags.last_mut() {
                // An empty line ends the description in a tag.
                tag.push(if line.is_empty() { '\n' } else { ' ' });
                tag.push_str(line);
            } else if line.is_empty() {
                in_summary &= summary.is_empty();
            } else if in_summary {
                summary.push(line);
            }
        }
        let summary = summary.join(" ");
        let inherited = summary.eq_ignore_ascii_case("{@inheritdoc}");
        Self {
            summary: (!summary.is_empty() && !inherited).then_some(summary),
            parameters: tags
                .iter()
                .filter_map(|tag| DocParameter::parse(tag))
                .collect(),
        }
    }

    /// Returns the type of a parameter, as the doc comment writes it.
    pub(super) fn type_of(&self, name: &str) -> Option<&str> {
        let of_name = || self.parameters.iter().filter(|known| known.name == name);
        let exact = of_name().find(|known| known.exact && !known.kind.is_empty());
        let kind = exact.or_else(|| of_name().find(|known| !known.kind.is_empty()));
        kind.map(|known| known.kind.as_str())
    }

    /// Returns the description of a parameter.
    pub(super) fn description_of(&self, name: &str) -> Option<&str> {
        let mut of_name = self.parameters.iter().filter(|known| known.name == name);
        let known = of_name.find(|known| !known.text.is_empty())?;
        Some(&known.text)
    }
}

impl DocParameter {
    fn parse(tag: &str) -> Option<Self> {
        let (word, rest) = tag.split_once(char::is_whitespace)?;
        let exact = match word {
            "@param" => false,
            "@phpstan-param" | "@psalm-param" => true,
            _ => return None,
        };
        let rest = rest.split('\n').next().unwrap_or_default();
        // No supported type contains a dollar sign, so the first one starts the parameter's name.
        let (kind, rest) = rest.split_once('$')?;
        let end = rest
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        let (name, text) = rest.split_at(end);
        let kind = kind.trim().trim_end_matches(['.', '&']).trim();
        let words: Vec<_> = text.split_whitespace().collect();
        Some(Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            text: words.join(" "),
            exact,
        })
    }
}
