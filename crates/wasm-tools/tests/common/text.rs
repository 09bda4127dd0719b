//! Hand-written components, including ones that no compiler would produce.

/// The addresses in memory of the results of `describe` and `call`.
const DESCRIBED: u32 = 16;
pub const RETURNED: u32 = 64;
const DESCRIPTION: u32 = 1024;
const SCHEMA: u32 = 2048;
/// The address in memory of the text that a test adds ([`Parts::own`]).
pub const OWN: u32 = 4096;

/// Returns a component with this body of `call`; see [`Parts`].
pub fn component(call: &str) -> Vec<u8> {
    Parts {
        call,
        ..Parts::default()
    }
    .build()
}

/// The parts of a component that tests vary.
pub struct Parts<'a> {
    pub description: &'a str,
    pub schema: &'a str,
    /// The body of `describe`, which returns the address of its result.
    pub describe: String,
    /// The body of `call`, which returns the address of its result. `$arguments` and `$length`
    /// locate the arguments.
    pub call: &'a str,
    /// A text that is stored at [`OWN`].
    pub own: &'a str,
    /// Additional content of the core module.
    pub module: &'a str,
    /// Additional imports of the component.
    pub imports: &'a str,
    /// Arguments for instantiating the core module, which satisfy the imports in `module`.
    pub with: &'a str,
    /// The name of the export for `call`.
    pub call_name: &'a str,
    /// The initial size of the memory, in pages of 64 KiB.
    pub pages: u32,
}

impl Default for Parts<'_> {
    fn default() -> Self {
        Self {
            description: "Does what a test wants",
            schema: "{\"type\": \"object\"}",
            describe: format!("(i32.const {DESCRIBED})"),
            call: ECHO,
            own: "",
            module: "",
            imports: "",
            with: "",
            call_name: "call",
            pages: 2,
        }
    }
}

/// The body of a `call` that returns the arguments as JSON.
pub const ECHO: &str = "
    (i32.store8 (i32.const 64) (i32.const 0))
    (i32.store8 (i32.const 68) (i32.const 1))
    (i32.store (i32.const 72) (local.get $arguments))
    (i32.store (i32.const 76) (local.get $length))
    (i32.const 64)";

/// Returns the body of a `call` that returns `length` bytes at an address, as text or JSON.
pub fn returns(is_json: bool, address: u32, length: u32) -> String {
    format!(
        "(i32.store8 (i32.const 64) (i32.const 0))
        (i32.store8 (i32.const 68) (i32.const {}))
        (i32.store (i32.const 72) (i32.const {address}))
        (i32.store (i32.const 76) (i32.const {length}))
        (i32.const 64)",
        u8::from(is_json)
    )
}

impl Parts<'_> {
    pub fn build(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap()
    }

    fn text(&self) -> String {
        let number = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
        let fields = [
            number(DESCRIPTION as usize),
            number(self.description.len()),
            number(SCHEMA as usize),
            number(self.schema.len()),
        ];
        let described = escaped(fields.as_flattened());
        let (description, schema) = (
            escaped(self.description.as_bytes()),
            escaped(self.schema.as_bytes()),
        );
        let own = escaped(self.own.as_bytes());
        let Self {
            describe,
            call,
            module,
            imports,
            with,
            call_name,
            pages,
            ..
        } = self;
        format!(
            r#"(component
  (import "pillion:tool/types@0.1.0" (instance $types
    (type $e (enum "none" "idempotent" "changes" "destroys"))
    (export "effects" (type $effects (eq $e)))
    (type $os (option string))
    (type $d (record
      (field "description" string) (field "input-schema" string) (field "category" $os)
      (field "requires-confirmation" bool) (field "effects" $effects)))
    (export "definition" (type (eq $d)))
    (type $c (record (field "call-id" string) (field "user" $os) (field "user-is-verified" bool) (field "channel" $os)))
    (export "context" (type (eq $c)))
    (type $o (variant (case "text" string) (case "json" string)))
    (export "output" (type (eq $o)))
    (type $ec (enum "invalid-input" "not-found" "rate-limited" "denied" "unavailable" "internal-error"))
    (export "error-code" (type $code (eq $ec)))
    (type $on (option u32))
    (type $f (record (field "code" $code) (field "message" string) (field "retry-after" $on)))
    (export "failure" (type (eq $f)))
  ))
  {imports}
  (alias export $types "definition" (type $definition))
  (alias export $types "context" (type $context))
  (alias export $types "output" (type $output))
  (alias export $types "failure" (type $failure))
  (core module $m
    {module}
    (memory (export "memory") {pages})
    (global $next (mut i32) (i32.const 65536))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $next))
      (global.set $next (i32.and (i32.add (i32.add (local.get $at) (local.get 3)) (i32.const 7)) (i32.const -8)))
      (local.get $at))
    (data (i32.const {DESCRIBED}) "{described}")
    (data (i32.const {DESCRIPTION}) "{description}")
    (data (i32.const {SCHEMA}) "{schema}")
    (data (i32.const {OWN}) "{own}")
    (func (export "describe") (result i32) {describe})
    (func (export "call")
      (param $arguments i32) (param $length i32) (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      {call}))
  (core instance $i (instantiate $m {with}))
  (func $describe (result $definition)
    (canon lift (core func $i "describe") (memory (core memory $i "memory"))))
  (func $call (param "arguments" string) (param "context" $context) (result (result $output (error $failure)))
    (canon lift (core func $i "call") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
  (export "describe" (func $describe))
  (export "{call_name}" (func $call)))"#
        )
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}
