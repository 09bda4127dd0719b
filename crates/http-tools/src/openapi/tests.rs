#![expect(
    clippy::needless_pass_by_value,
    reason = "what json! makes is handed over"
)]

use pillion_core::tool::Tool;
use serde_json::json;

use super::*;

const PETS: &str = r##"
openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: "https://pets.example/api/"}]
paths:
  /pets/{petId}:
    parameters:
      - {name: petId, in: path, required: true, schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
    get:
      operationId: getPet
      summary: One pet
      parameters:
        - $ref: "#/components/parameters/Fields"
        - {name: petId, in: query, schema: {type: string, nullable: true}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
    put:
      operationId: replace pet
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: "#/components/schemas/Pet"}
  /upload:
    post:
      operationId: upload
      requestBody: {required: true, content: {image/png: {}}}
  /far:
    get:
      operationId: far
      parameters: [{name: a, in: query, schema: {$ref: "https://elsewhere.example/a.json"}}]
  /round:
    get:
      operationId: round
      parameters: [{$ref: "#/components/parameters/Round"}]
  /objects:
    get:
      operationId: objects
      parameters: [{name: filter, in: query, schema: {type: object}}]
  .evil.example/x:
    get: {operationId: elsewhere}
components:
  parameters:
    Fields: {name: fields, in: query, description: Which, explode: false, schema: {type: array, items: {type: string}}}
    Round: {$ref: "#/components/parameters/Round"}
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, example: Rex}
        parent: {$ref: "#/components/schemas/Pet"}
        $ref: {type: string}
"##;

fn entry(operations: Value) -> OpenApiEntry {
    let entry = json!({"name": "pets", "document": "unused", "operations": operations});
    serde_json::from_value(entry).unwrap()
}

fn tools(operations: Value) -> Result<Vec<HttpTool>, String> {
    let document = OpenApiDocument::parse(PETS).map_err(|error| error.to_string())?;
    let tools = entry(operations).create_tools(&document);
    tools.map_err(|error| error.to_string())
}

#[test]
fn an_operation_becomes_a_tool_with_its_schema() {
    let [get] = &tools(json!(["getPet"])).unwrap()[..] else {
        panic!("one tool")
    };
    assert_eq!(get.definition().name().as_str(), "pets_getPet");
    assert_eq!(get.definition().description(), "One pet");
    assert_eq!(get.definition().annotations()["readOnlyHint"], json!(true));
    assert_eq!(
        *get.definition().input_schema(),
        json!({
            "type": "object",
            "properties": {
                "petId": {"type": "integer", "exclusiveMinimum": 0},
                "fields": {"type": "array", "items": {"type": "string"}, "description": "Which"},
                "query_petId": {"type": ["string", "null"]},
                "X-Trace": {"type": "string"},
            },
            "required": ["petId"],
            "additionalProperties": false,
        })
    );
    let arguments = json!({"petId": 7, "fields": ["a b", "c,d"], "query_petId": "x/y"});
    let request = get.plan.fill(&arguments, &get.access).unwrap();
    assert_eq!(
        request.url.as_str(),
        "https://pets.example/api/pets/7?fields=a%20b,c%2Cd&petId=x%2Fy"
    );
}

#[test]
fn a_recursive_schema_keeps_its_reference() {
    let [put] = &tools(json!(["replace pet"])).unwrap()[..] else {
        panic!("one tool")
    };
    assert_eq!(put.definition().name().as_str(), "pets_replace_pet");
    let schema = put.definition().input_schema();
    assert_eq!(schema["properties"]["body"], json!({"$ref": "#/$defs/Pet"}));
    let pet = &schema["$defs"]["Pet"];
    assert_eq!(pet["properties"]["parent"], json!({"$ref": "#/$defs/Pet"}));
    assert_eq!(pet["properties"]["name"], json!({"type": "string"}));
    assert_eq!(pet["properties"]["$ref"], json!({"type": "string"}));
    assert_eq!(pet["required"], json!(["name"]));
    assert!(pet["properties"].get("id").is_none());
}

#[test]
fn unsupported_operations_are_rejected_by_name_and_otherwise_skipped() {
    for (id, what) in [
        (
            "upload",
            "POST /upload: the required request body is not JSON",
        ),
        ("far", "points to another document"),
        ("round", "form a cycle"),
        ("objects", "needs the style deepObject"),
        ("elsewhere", "does not begin with '/'"),
        ("none", "unknown operation 'none'. The document has: getPet"),
    ] {
        let error = tools(json!([id])).unwrap_err();
        assert!(error.contains(what), "{id}: {error}");
    }
    let error = tools(json!([])).unwrap_err();
    assert!(error.contains("no operation is selected"), "{error}");
    let all = tools(json!(["*"])).unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|tool| tool.definition().name().as_str())
        .collect();
    assert_eq!(names, ["pets_getPet", "pets_replace_pet"]);
}

fn parse_error(document: &str) -> String {
    let error = OpenApiDocument::parse(document).err().unwrap();
    error.to_string()
}

#[test]
fn invalid_documents_are_rejected() {
    for (document, what) in [
        ("{", "invalid JSON"),
        ("a: [", "invalid YAML"),
        ("swagger: '2.0'", "version 3.0 or 3.1"),
        ("a: &a [x]\nb: &b [*a,*a]", "version 3.0 or 3.1"),
    ] {
        let error = parse_error(document);
        assert!(error.contains(what), "{document}: {error}");
    }
    let bomb: String = (0..30)
        .map(|n| match n {
            0 => "a0: &a0 [x, x]\n".to_owned(),
            n => format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1),
        })
        .collect();
    assert!(parse_error(&bomb).contains("invalid YAML"));
}

#[test]
fn a_document_without_an_absolute_url_needs_a_base_url() {
    let yaml = "openapi: 3.1.0\nservers: [{url: /api}]\npaths: {/a: {get: {operationId: a}}}";
    let document = OpenApiDocument::parse(yaml).unwrap();
    let error = entry(json!(["a"])).create_tools(&document).err().unwrap();
    assert_eq!(error.key, "base_url");
    let mut with_base = entry(json!(["a"]));
    with_base.base_url = Some("http://192.0.2.1/".to_owned());
    let error = with_base.create_tools(&document).err().unwrap();
    assert!(error.to_string().contains("egress.allow_http"), "{error}");
}

/// Returns a document with these schemas and one operation, whose body has the first schema.
fn with_schemas(schemas: Value) -> OpenApiDocument {
    let first = schemas.as_object().unwrap().keys().next().unwrap();
    let body = json!({"$ref": format!("#/components/schemas/{first}")});
    let operation = json!({
        "operationId": "send",
        "requestBody": {"content": {"application/json": {"schema": body}}},
    });
    document(json!({"/send": {"post": operation}}), schemas)
}

fn document(paths: Value, schemas: Value) -> OpenApiDocument {
    let document = json!({
        "openapi": "3.1.0",
        "servers": [{"url": "https://pets.example"}],
        "paths": paths,
        "components": {"schemas": schemas},
    });
    OpenApiDocument::parse(&document.to_string()).unwrap()
}

fn outcome(schemas: Value) -> Result<Value, String> {
    let created = entry(json!(["send"])).create_tools(&with_schemas(schemas));
    let tools = created.map_err(|error| error.to_string())?;
    Ok(tools[0].definition().input_schema().clone())
}

/// Returns a cycle of `length` schemas, each of which contains the next.
fn chain(length: usize) -> Value {
    let schemas = (0..length).map(|number| {
        let next = json!({"$ref": format!("#/components/schemas/s{}", (number + 1) % length)});
        let schema = json!({"type": "object", "properties": {"a": {"items": {"anyOf": [next]}}}});
        (format!("s{number}"), schema)
    });
    schemas.collect()
}

#[test]
fn a_chain_of_references_may_include_every_schema() {
    let schema = outcome(chain(256)).unwrap();
    assert_eq!(schema["$defs"].as_object().unwrap().len(), 256);
    let error = outcome(chain(257)).unwrap_err();
    let message = "references more than 256 schemas";
    assert!(error.contains(message), "{error}");
}

#[test]
fn schemas_nested_too_deep_are_rejected() {
    let deep = (0..70).fold(json!({}), |schema, _| json!({"items": schema}));
    let error = outcome(json!({"s": deep})).unwrap_err();
    assert!(error.contains("more than 64 levels deep"), "{error}");
    // The schema is nested more deeply than any parser accepts.
    let depth = 100_000;
    let document = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(OpenApiDocument::parse(&document).is_err());
    let document = format!("a: {}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(OpenApiDocument::parse(&document).is_err());
}

#[test]
fn a_document_that_expands_too_much_is_rejected() {
    // Each schema contains the next one ten times, but the size of the copy stays small.
    let laughs: serde_json::Map<_, _> = (0..30)
        .map(|number| {
            let next = json!({"$ref": format!("#/components/schemas/s{}", (number + 1) % 30)});
            (format!("s{number}"), json!({"allOf": vec![next; 10]}))
        })
        .collect();
    assert!(outcome(Value::Object(laughs)).unwrap().to_string().len() < 100_000);
    // Each reference points to another schema that contains the same long text.
    let text = "x".repeat(100_000);
    let mut inner = json!({"description": text});
    for _ in 0..20 {
        inner = json!({"not": inner});
    }
    let mut refs = Vec::new();
    let mut pointer = "#/components/schemas/inner".to_owned();
    for _ in 0..20 {
        refs.push(json!({"$ref": pointer}));
        pointer += "/not";
    }
    let error = outcome(json!({"first": {"anyOf": refs}, "inner": inner})).unwrap_err();
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
    let texts: Value = (0..2_000).map(|_| json!("x".repeat(1_000))).collect();
    let error = outcome(json!({"first": {"enum": texts}})).unwrap_err();
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
}

#[test]
fn each_use_of_a_yaml_alias_is_counted() {
    let text = "x".repeat(4 * 1024 * 1024);
    let aliases = vec!["*a"; 90].join(", ");
    let document = format!("openapi: 3.1.0\na: &a {text}\nb: [{aliases}]\n");
    let error = parse_error(&document);
    assert!(error.contains("invalid YAML"), "{error}");
}

#[test]
fn the_total_size_of_all_tools_is_limited() {
    let texts: Value = (0..200).map(|_| json!("x".repeat(1_000))).collect();
    let paths: Value = (0..400)
        .map(|number| {
            let schema = json!({"$ref": "#/components/schemas/large"});
            let body = json!({"content": {"application/json": {"schema": schema}}});
            let operation = json!({"operationId": format!("o{number}"), "requestBody": body});
            (format!("/{number}"), json!({"post": operation}))
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let document = document(paths, json!({"large": {"enum": texts}}));
    let all = entry(json!(["*"])).create_tools(&document).unwrap();
    assert!((300..350).contains(&all.len()), "{}", all.len());
    let error = entry(json!(["o0"])).create_tools(&document).unwrap_err();
    assert!(error.to_string().contains("67108864 bytes"), "{error}");
}

#[test]
fn the_number_of_parameters_is_limited() {
    let parameter = |number| json!({"name": format!("p{number}"), "in": "query", "schema": {}});
    let parameters: Value = (0..257).map(parameter).collect();
    let operation = json!({"operationId": "a", "parameters": parameters});
    let document = document(json!({"/a": {"get": operation}}), json!({}));
    let error = entry(json!(["a"])).create_tools(&document).unwrap_err();
    assert!(error.to_string().contains("more than 256 parameters"));
}

#[test]
fn an_operation_with_its_own_servers_needs_a_base_url() {
    let servers = json!([{"url": "https://elsewhere.example"}]);
    for item in [
        json!({"get": {"operationId": "a"}, "servers": servers}),
        json!({"get": {"operationId": "a", "servers": servers}}),
    ] {
        let other = json!({"get": {"operationId": "b", "servers": []}});
        let document = document(json!({"/a": item, "/b": other}), json!({}));
        let error = entry(json!(["a"])).create_tools(&document).unwrap_err();
        let message = error.to_string();
        let expected = "GET /a: the operation has its own 'servers'";
        assert!(message.contains(expected), "{message}");
        assert_eq!(
            entry(json!(["*"])).create_tools(&document).unwrap().len(),
            1
        );
        let mut with_base = entry(json!(["a"]));
        with_base.base_url = Some("https://elsewhere.example".to_owned());
        assert_eq!(with_base.create_tools(&document).unwrap().len(), 1);
    }
}
