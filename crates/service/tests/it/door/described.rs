//! What the service answers, held against the document that describes it.

use serde_json::{Map, Value};

/// The OpenAPI document of a service.
pub struct Described(Value);

impl Described {
    /// By what was answered.
    pub fn new(document: Value) -> Self {
        Self(document)
    }

    /// Holds an answer, and the request that was taken, against what is said of them.
    pub fn hold(&self, method: &str, path: &str, asked: &str, status: u16, answered: &Value) {
        let Some(said) = self.operation(method, path) else { return };
        let at = format!("{method} {path}: {status}");
        let responses = &said["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let (response, media) = match response.get("$ref") {
            None => (response, "application/json"),
            Some(_) => (self.led(response), "application/problem+json"),
        };
        let schema = &response["content"][media]["schema"];
        self.check(&at, schema, answered).unwrap_or_else(|why| panic!("{why}, in {answered}"));
        let body = &said["requestBody"]["content"]["application/json"]["schema"];
        if let (Ok(asked), true, 200..300) = (serde_json::from_str::<Value>(asked), body.is_object(), status)
        {
            self.check(&at, body, &asked).unwrap_or_else(|why| panic!("{why}, in {asked}"));
        }
    }

    /// What is said of a path, whose parts in braces stand for any.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split('?').next().unwrap_or(path);
        let fits = |template: &str| {
            let (known, asked) = (template.split('/'), path.split('/'));
            known.clone().count() == asked.clone().count()
                && known.zip(asked).all(|(known, asked)| known.starts_with('{') || known == asked)
        };
        let paths = self.0["paths"].as_object().expect("paths");
        let (_, item) = paths.iter().find(|(template, _)| fits(template))?;
        item.get(method.to_lowercase())
    }

    /// What a reference leads to, or the schema itself.
    fn led<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            None => schema,
            Some(to) => self.0.pointer(to.trim_start_matches('#')).expect("what is referred to"),
        }
    }

    fn check(&self, at: &str, schema: &Value, value: &Value) -> Result<(), String> {
        self.check_as(at, schema, value, true)
    }

    /// The same, where all fields are described or others may have been.
    fn check_as(&self, at: &str, schema: &Value, value: &Value, is_all: bool) -> Result<(), String> {
        let schema = self.led(schema);
        let Value::Object(said) = schema else { return Ok(()) };
        let is = |name: &Value| name.as_str().is_some_and(|name| is_of(name, value));
        match said.get("type") {
            Some(Value::Array(names)) if !names.iter().any(is) => {
                return Err(format!("{at} is no {names:?}"));
            }
            Some(name @ Value::String(_)) if !is(name) => return Err(format!("{at} is no {name}")),
            _ => {}
        }
        let names = said.get("enum").and_then(Value::as_array);
        if names.is_some_and(|names| !names.contains(value))
            || said.get("const").is_some_and(|only| only != value)
        {
            return Err(format!("{at} is none of those names"));
        }
        for key in ["anyOf", "oneOf"] {
            let Some(Value::Array(ways)) = said.get(key) else { continue };
            let tried: Vec<_> = ways
                .iter()
                .map(|way| self.check_as(at, way, value, !said.contains_key("properties")))
                .collect();
            if tried.iter().all(Result::is_err) {
                return Err(format!("{at} is in none of the ways: {tried:?}"));
            }
        }
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.check_item(at, said, item)),
            Value::Object(fields) => self.check_fields(at, schema, fields, is_all),
            _ => Ok(()),
        }
    }

    fn check_item(&self, at: &str, said: &Map<String, Value>, item: &Value) -> Result<(), String> {
        said.get("items").map_or(Ok(()), |schema| self.check(&format!("{at}[]"), schema, item))
    }

    fn check_fields(
        &self,
        at: &str,
        schema: &Value,
        fields: &Map<String, Value>,
        is_all: bool,
    ) -> Result<(), String> {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(format!("{at} lacks {name}"));
            }
        }
        let known = self.fields(schema);
        for (name, value) in fields {
            match (known.iter().find(|(known, _)| known == name), schema.get("additionalProperties")) {
                (Some((_, schema)), _) => self.check(&format!("{at}.{name}"), schema, value)?,
                (None, Some(Value::Bool(false))) => return Err(format!("{at}.{name} is not described")),
                (None, Some(schema)) => self.check(&format!("{at}.{name}"), schema, value)?,
                // What describes no field leaves all of them open.
                (None, None) if !is_all || known.is_empty() || schema.get("anyOf").is_some() => {}
                (None, None) => return Err(format!("{at}.{name} is not described")),
            }
        }
        Ok(())
    }

    /// The fields that a schema describes, also those of one of its ways alone.
    fn fields<'a>(&'a self, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let own = schema["properties"].as_object().into_iter().flatten();
        let own = own.map(|(name, schema)| (name.as_str(), schema));
        let ways = schema["oneOf"].as_array().into_iter().flatten();
        // A way that a field has another shape in was looked at with that way.
        let of_ways = ways.flat_map(|way| self.fields(self.led(way))).map(|(name, _)| (name, &Value::Null));
        own.chain(of_ways).collect()
    }
}

/// Whether a value is of the type of that name.
fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}

#[test]
fn what_is_not_described_is_found() {
    let schema = r##"{"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/x"}}, "required": ["a"],
        "oneOf": [{"properties": {"kind": {"const": "c"}}, "required": ["kind"]}], "type": "object"}"##;
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let described =
        Described::new(serde_json::json!({"x": {"type": ["string", "null"], "enum": ["e", null]}}));
    let check = |text: &str| described.check("it", &schema, &serde_json::from_str(text).expect("JSON"));
    for fine in [
        r#"{"a": 1, "kind": "c"}"#,
        r#"{"a": 1, "b": null, "kind": "c"}"#,
        r#"{"a": 1, "b": "e", "kind": "c"}"#,
    ] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
    for wrong in [
        "[]",
        r#"{"kind": "c"}"#,
        r#"{"a": 1.5, "kind": "c"}"#,
        r#"{"a": 1, "b": "f", "kind": "c"}"#,
        r#"{"a": 1, "kind": "d"}"#,
        r#"{"a": 1, "kind": "c", "more": 1}"#,
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
