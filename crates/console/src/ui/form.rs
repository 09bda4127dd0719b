//! Forms. Each form has the session's CSRF token, and works without the script.

use maud::{Markup, html};

use crate::visitor::Visitor;

/// The name of the form field with the CSRF token.
pub(crate) const CSRF_FIELD: &str = "csrf";

/// Returns the hidden fields that each form with the method POST needs.
pub(crate) fn hidden_fields(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(CSRF_FIELD) value=(visitor.csrf_token()); }
}

/// Shows a button that changes something.
pub(crate) fn action_form(visitor: &Visitor, path: &str, label: &str, class: &str) -> Markup {
    html! {
        form .inline method="post" action=(visitor.href(path)) {
            (hidden_fields(visitor))
            button type="submit" class=(class) { (label) }
        }
    }
}

/// A labelled control of a form, with a hint and the reason why its value was rejected.
pub(crate) struct Field<'a> {
    /// The name of the control, and the ID of its element.
    pub(crate) name: &'a str,
    pub(crate) label: &'a str,
    pub(crate) hint: Option<&'a str>,
    pub(crate) fault: Option<&'a str>,
    pub(crate) control: FormControl<'a>,
}

/// The control of a [`Field`], with its current value.
pub(crate) enum FormControl<'a> {
    /// One line of text.
    Text { value: &'a str },
    /// One line that browsers hide and do not show again.
    Secret,
    /// Several lines of JSON.
    Json { value: &'a str, rows: usize },
    /// One of several values, each with its label.
    Select {
        value: &'a str,
        options: Vec<(&'a str, &'a str)>,
    },
}

impl Field<'_> {
    pub(crate) fn render(&self) -> Markup {
        let (name, is_invalid) = (self.name, self.fault.is_some());
        let notes = format!("{name}-notes");
        let described_by = (self.hint.is_some() || is_invalid).then_some(&notes);
        let invalid = is_invalid.then_some("true");
        html! {
            div .field {
                label for=(name) { (self.label) }
                @match &self.control {
                    FormControl::Text { value } => {
                        input #(name) name=(name) value=(value) aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Secret => {
                        input #(name) name=(name) type="password" autocomplete="off" aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Json { value, rows } => {
                        textarea #(name) .code name=(name) rows=(rows) spellcheck="false" aria-describedby=[described_by] aria-invalid=[invalid] { (value) }
                    }
                    FormControl::Select { value, options } => {
                        select #(name) name=(name) aria-describedby=[described_by] aria-invalid=[invalid] {
                            @for (option, label) in options {
                                option value=(option) selected[option == value] { (label) }
                            }
                        }
                    }
                }
                @if described_by.is_some() {
                    div id=(notes) {
                        @if let Some(fault) = self.fault { p .fault { (fault) } }
                        @if let Some(hint) = self.hint { p .hint { (hint) } }
                    }
                }
            }
        }
    }
}
