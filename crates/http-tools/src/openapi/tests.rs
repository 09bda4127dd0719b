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
    let document = Document::parse(PETS).map_err(|error| error.to_string())?;
    let tools = entry(operations).tools_of(&document);
    tools.map_err(|error| error.to_string())
}

#[test]
fn f304_an_operation_becomes_a_tool_with_its_schema() {
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
    let request = get.plan.fill(&arguments, &get.door).unwrap();
    assert_eq!(
        request.url.as_str(),
        "https://pets.example/api/pets/7?fields=a%20b,c%2Cd&petId=x%2Fy"
    );
}

#[test]
fn f304_a_schema_that_holds_itself_refers_to_itself() {
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
fn f304_what_cannot_be_a_tool_is_refused_by_name_and_left_out_of_all() {
    for (id, what) in [
        ("upload", "POST /upload: its body is no JSON"),
        ("far", "is in another document"),
        ("round", "in a circle"),
        ("objects", "whose style is not deepObject"),
        ("elsewhere", "does not begin with '/'"),
        ("none", "there is no operation 'none'. There are: getPet"),
    ] {
        let error = tools(json!([id])).unwrap_err();
        assert!(error.contains(what), "{id}: {error}");
    }
    let error = tools(json!([])).unwrap_err();
    assert!(error.contains("name operations"), "{error}");
    let all = tools(json!(["*"])).unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|tool| tool.definition().name().as_str())
        .collect();
    assert_eq!(names, ["pets_getPet", "pets_replace_pet"]);
}

#[test]
fn f304_what_is_no_document_is_refused() {
    for (document, what) in [
        ("{", "no JSON"),
        ("a: [", "no YAML"),
        ("swagger: '2.0'", "version 3.0 or 3.1"),
        ("a: &a [x]\nb: &b [*a,*a]", "version 3.0 or 3.1"),
    ] {
        let error = Document::parse(document)
            .err()
            .map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.contains(what)),
            "{document}: {error:?}"
        );
    }
    let bomb: String = (0..30)
        .map(|n| match n {
            0 => "a0: &a0 [x, x]\n".to_owned(),
            n => format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1),
        })
        .collect();
    let error = Document::parse(&bomb).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("no YAML")));
}

#[test]
fn f304_a_document_without_a_whole_url_needs_one() {
    let document = "openapi: 3.1.0\nservers: [{url: /api}]\npaths: {/a: {get: {operationId: a}}}";
    let document = Document::parse(document).unwrap();
    let error = entry(json!(["a"])).tools_of(&document).err().unwrap();
    assert_eq!(error.key, "base_url");
    let mut with_base = entry(json!(["a"]));
    with_base.base_url = Some("http://192.0.2.1/".to_owned());
    let error = with_base.tools_of(&document).err().unwrap();
    assert!(error.to_string().contains("egress.allow_http"), "{error}");
}
