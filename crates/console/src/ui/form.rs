//! Forms. Each form has the session's CSRF token, and works without the script.

use maud::{Markup, html};
use pillion_gateway::pins::{visible, visible_json};

use super::text::untrusted_beginning;
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

/// Maximum length of a label or a hint, in bytes.
const MAX_LABEL_BYTES: usize = 500;

/// A labelled control of a form. The label and the hint may be text from outside.
pub(crate) struct Field<'a> {
    /// The name of the control, and the ID of its element.
    name: &'a str,
    label: &'a str,
    hint: Option<&'a str>,
    fault: Option<&'a str>,
    control: FormControl<'a>,
}

/// The control of a [`Field`], with its current value.
pub(crate) enum FormControl<'a> {
    /// One line of text.
    Text { value: &'a str },
    /// A number.
    Number { value: &'a str },
    /// Text that may have several lines.
    Lines { value: &'a str },
    /// One line that browsers hide and do not show again.
    Secret,
    /// A box that is checked or not. A checked box has the value `true`.
    Checkbox { is_checked: bool },
    /// Several lines of JSON. Hidden characters are shown as escapes, which does not change the
    /// value.
    Json { value: &'a str, rows: usize },
    /// One of several values, each with its label.
    Select {
        value: &'a str,
        options: Vec<(&'a str, &'a str)>,
    },
}

impl<'a> Field<'a> {
    pub(crate) fn new(name: &'a str, label: &'a str, control: FormControl<'a>) -> Self {
        Self {
            name,
            label,
            hint: None,
            fault: None,
            control,
        }
    }

    /// Creates a field with one line of text.
    pub(crate) fn text(name: &'a str, label: &'a str, value: &'a str) -> Self {
        Self::new(name, label, FormControl::Text { value })
    }

    /// Sets the explanation below the control.
    pub(crate) fn with_hint(self, hint: impl Into<Option<&'a str>>) -> Self {
        let hint = hint.into();
        Self { hint, ..self }
    }

    /// Sets the reason why the value was rejected, if it was.
    pub(crate) fn with_fault(self, fault: Option<&'a str>) -> Self {
        Self { fault, ..self }
    }

    pub(crate) fn render(&self) -> Markup {
        let (name, is_invalid) = (self.name, self.fault.is_some());
        let notes = format!("{name}-notes");
        let described_by = (self.hint.is_some() || is_invalid).then_some(&notes);
        let invalid = is_invalid.then_some("true");
        html! {
            div .field {
                label for=(name) { (untrusted_beginning(self.label, MAX_LABEL_BYTES)) }
                @match &self.control {
                    FormControl::Text { value } => {
                        input #(name) name=(name) value=(value) aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Number { value } => {
                        input #(name) name=(name) value=(value) inputmode="decimal" aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Lines { value } => {
                        textarea #(name) name=(name) rows="1" aria-describedby=[described_by] aria-invalid=[invalid] { (value) }
                    }
                    FormControl::Secret => {
                        input #(name) name=(name) type="password" autocomplete="off" aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Checkbox { is_checked } => {
                        input #(name) name=(name) type="checkbox" value="true" checked[*is_checked] aria-describedby=[described_by] aria-invalid=[invalid];
                    }
                    FormControl::Json { value, rows } => {
                        textarea #(name) .code name=(name) rows=(rows) spellcheck="false" placeholder="JSON" aria-describedby=[described_by] aria-invalid=[invalid] { (visible_json(value)) }
                    }
                    FormControl::Select { value, options } => {
                        select #(name) name=(name) aria-describedby=[described_by] aria-invalid=[invalid] {
                            @for (option, label) in options {
                                option value=(option) selected[option == value] { (visible(label)) }
                            }
                        }
                    }
                }
                @if described_by.is_some() {
                    div id=(notes) {
                        @if let Some(fault) = self.fault { p .fault { (untrusted_beginning(fault, MAX_LABEL_BYTES)) } }
                        @if let Some(hint) = self.hint { p .hint { (untrusted_beginning(hint, MAX_LABEL_BYTES)) } }
                    }
                }
            }
        }
    }
}
