//! The OpenAPI document, made of the routes and of the types of what they read and answer.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{Generators, Operation};
use super::problem::Problem;

/// What one path answers to one method.
pub(crate) struct DescribedRoute {
    /// The method, in lower case.
    pub(crate) method: &'static str,
    /// The path.
    pub(crate) path: &'static str,
    /// What is done.
    pub(crate) operation: Operation,
}

/// Where the schemas lie in the document, and where those of answers lie until it is known which are other ones.
const SCHEMAS: &str = "#/components/schemas/";
const ANSWERED: &str = "#/components/answered/";
/// What the name of a type ends with in answers, where they have it in another shape than requests.
const SHOWN: &str = "Shown";

/// How a field says that it has another name, too, which serde knows as its alias.
const ALIAS: &str = "x-alias";

const TAGS: [&str; 6] = ["estimates", "jobs", "spreads", "history", "service", "dashboard"];

const ABOUT: &str = "The name of a quantity ends with its unit: `_bps` is bit/s, `_bytes` bytes, `_ms` and `_us` times, and a moment is \
milliseconds since 1970 in UTC. Options have the names of the command line, with underscores: theirs are bit/s, bytes and seconds, or \
texts with a unit. A request needs the service's token as `Authorization: Bearer TOKEN`, or the dashboard's cookie. \
Bodies have up to 16 MiB. An error is an `application/problem+json` that says what failed and what to do. Addresses are answered \
without the secrets they were given with. Where an answer is `text/event-stream`, `x-events` has the type of each event's data.";

/// The document of those routes.
pub(crate) fn write(routes: &[DescribedRoute]) -> Value {
    let settings = |path: &str| {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = path.trim_start_matches('#').trim_end_matches('/').to_owned().into();
        settings
    };
    let mut generators = Generators {
        read: settings(SCHEMAS).for_deserialize().into_generator(),
        answered: settings(ANSWERED).for_serialize().into_generator(),
    };
    let mut paths = Map::new();
    for DescribedRoute { method, path, operation } in routes {
        let item = paths.entry(*path).or_insert_with(|| json!({}));
        item[*method] = operation.write(&mut generators);
    }
    let problem = generators.answered.subschema_for::<Problem>();
    let problem = json!({"description": "What failed, and what to do.", "content": {"application/problem+json": {"schema": problem}}});
    let mut read = Value::Object(generators.read.take_definitions(false));
    let mut answered = Value::Object(generators.answered.take_definitions(false));
    let mut paths = Value::Object(paths);
    for schemas in [&mut read, &mut answered, &mut paths] {
        each(schemas, &mut without_null);
        each(schemas, &mut in_plain_words);
        each(schemas, &mut as_names);
    }
    each(&mut read, &mut also_called);
    each(&mut answered, &mut |object| {
        object.remove(ALIAS);
        // What reads an old answer may be lacking is never left out of a new one.
        object.remove("default");
    });
    let others = others(&read, &answered);
    let schemas = merged(read, answered, &others);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": "1",
            "summary": "How many streams, how fast, how long; jobs that are moved so; and what was seen.",
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "tags": TAGS.map(|name| json!({"name": name})),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "tidegate_PORT"},
                "mover": {"type": "http", "scheme": "bearer"},
            },
            "responses": {"Problem": problem},
            "schemas": schemas,
        },
    });
    each(&mut document, &mut |object| lead(object, &others));
    document
}

/// Changes every object, those within it first.
fn each(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(|value| each(value, change));
            change(object);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        _ => {}
    }
}

/// What is not there is left out, and not null: no answer has both, and a request need not.
fn without_null(object: &mut Map<String, Value>) {
    let required = object.get("required").cloned().unwrap_or_default();
    if object.get("in").is_some_and(|place| place == "query") {
        object.get_mut("schema").into_iter().for_each(not_null);
    }
    let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let is_required = |name: &String| required.as_array().is_some_and(|names| names.contains(&json!(name)));
    fields.iter_mut().filter(|(name, _)| !is_required(name)).for_each(|(_, field)| not_null(field));
}

fn not_null(field: &mut Value) {
    let Some(field) = field.as_object_mut() else { return };
    let null = json!({"type": "null"});
    if field.get("default").is_some_and(Value::is_null) {
        field.remove("default");
    }
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            field.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(ways)) = field.get_mut("anyOf") {
        ways.retain(|way| *way != null);
        if let [Value::Object(only)] = &ways[..] {
            let only = only.clone();
            field.remove("anyOf");
            for (key, value) in only {
                field.entry(key).or_insert(value);
            }
        }
    }
}

/// A comment of the source without what only its readers understand: examples, and where links lead.
fn in_plain_words(object: &mut Map<String, Value>) {
    let Some(Value::String(text)) = object.get_mut("description") else { return };
    let prose = text.split("\n```").next().unwrap_or_default().trim();
    let paragraphs = prose.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    let mut plain = paragraphs.collect::<Vec<_>>().join("\n\n");
    while let Some((start, length)) = plain.find("](").and_then(|at| Some((at, plain[at..].find(')')?))) {
        plain.replace_range(start..=start + length, "]");
    }
    *text = plain.replace("[`", "`").replace("`]", "`");
}

/// Names to choose from as such, where each has a line of its own.
fn as_names(object: &mut Map<String, Value>) {
    let Some(Value::Array(ways)) = object.get("oneOf") else { return };
    let name = |way: &Value| Some(vec![way.get("const")?.as_str()?.to_owned()]);
    let names = |way: &Value| {
        let many = way.get("enum").and_then(Value::as_array);
        let many = || many?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        name(way).or_else(many)
    };
    let Some(all) = ways.iter().map(names).collect::<Option<Vec<_>>>() else { return };
    let line = |(way, names): (&Value, &Vec<String>)| {
        let said = way.get("description").and_then(Value::as_str)?;
        Some(format!("- `{}`: {said}", names.join("`, `")))
    };
    let lines: Vec<String> = ways.iter().zip(&all).filter_map(line).collect();
    let about = object.get("description").and_then(Value::as_str).map(str::to_owned);
    let about: Vec<String> =
        about.into_iter().chain([lines.join("\n")]).filter(|text| !text.is_empty()).collect();
    object.remove("oneOf");
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), all.concat().into());
    object.insert("description".to_owned(), about.join("\n\n").into());
}

/// Fields that may be called otherwise, by that name too.
fn also_called(object: &mut Map<String, Value>) {
    let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let alias = |(name, field): (&String, &mut Value)| {
        let Some(Value::String(alias)) = field.as_object_mut()?.remove(ALIAS) else { return None };
        Some((name.clone(), alias, field.clone()))
    };
    let found: Vec<(String, String, Value)> = fields.iter_mut().filter_map(alias).collect();
    for (name, alias, mut field) in found {
        field["description"] = format!("The same as `{name}`, of which one is given.").into();
        if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
            fields.insert(alias.clone(), field);
        }
        let Some(Value::Array(required)) = object.get_mut("required") else { continue };
        if required.iter().any(|required| *required == name) {
            required.retain(|required| *required != name);
            object.insert("oneOf".to_owned(), json!([{"required": [name]}, {"required": [alias]}]));
        }
    }
}

/// The types that answers have in another shape than requests, or that lead to such.
fn others(read: &Value, answered: &Value) -> BTreeSet<String> {
    let as_read = |schema: &Value| {
        let mut schema = schema.clone();
        each(&mut schema, &mut |object| lead(object, &BTreeSet::new()));
        schema
    };
    let shared: Vec<(&String, Value)> = answered
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| read.get(name.as_str()).is_some())
        .map(|(name, schema)| (name, as_read(schema)))
        .collect();
    let differs = |(name, schema): &&(&String, Value)| read[name.as_str()] != *schema;
    let mut others: BTreeSet<String> =
        shared.iter().filter(differs).map(|(name, _)| (*name).clone()).collect();
    loop {
        let before = others.len();
        let leads = |schema: &Value| {
            let text = schema.to_string();
            others.iter().any(|other| text.contains(&format!("\"{SCHEMAS}{other}\"")))
        };
        let leading = shared.iter().filter(|(_, schema)| leads(schema));
        let more: Vec<String> = leading.map(|(name, _)| (*name).clone()).collect();
        others.extend(more);
        if others.len() == before {
            return others;
        }
    }
}

/// All types, those of answers under a name of their own where they are other ones.
fn merged(read: Value, answered: Value, others: &BTreeSet<String>) -> Value {
    let (Value::Object(mut all), Value::Object(answered)) = (read, answered) else { return Value::Null };
    for (name, schema) in answered {
        let name = if others.contains(&name) { format!("{name}{SHOWN}") } else { name };
        all.insert(name, schema);
    }
    all.into()
}

/// Leads a reference of an answer to where its type is at last.
fn lead(object: &mut Map<String, Value>, others: &BTreeSet<String>) {
    let Some(Value::String(reference)) = object.get_mut("$ref") else { return };
    if let Some(name) = reference.strip_prefix(ANSWERED) {
        let suffix = if others.contains(name) { SHOWN } else { "" };
        *reference = format!("{SCHEMAS}{name}{suffix}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_says_what_a_client_has_to_know() {
        let mut schema = json!({
            "description": "A [`Sort`](crate::Sort) of\nthing.\n\n```\nlet x = 1;\n```",
            "properties": {
                "perhaps": {"type": ["integer", "null"], "default": null},
                "other": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}], "description": "Its own."},
                "known": {"type": ["integer", "null"]},
                "word": {"oneOf": [{"const": "a", "type": "string", "description": "One."}, {"enum": ["b", "c"], "type": "string"}]},
                "many": {"type": "array", "x-alias": "one"},
            },
            "required": ["known", "many"],
        });
        each(&mut schema, &mut without_null);
        each(&mut schema, &mut in_plain_words);
        each(&mut schema, &mut as_names);
        each(&mut schema, &mut also_called);
        let wanted = json!({
            "description": "A `Sort` of thing.",
            "properties": {
                "perhaps": {"type": "integer"},
                "other": {"$ref": "#/x", "description": "Its own."},
                "known": {"type": ["integer", "null"]},
                "word": {"type": "string", "enum": ["a", "b", "c"], "description": "- `a`: One."},
                "many": {"type": "array"},
                "one": {"type": "array", "description": "The same as `many`, of which one is given."},
            },
            "required": ["known"],
            "oneOf": [{"required": ["many"]}, {"required": ["one"]}],
        });
        assert_eq!(schema, wanted);
    }

    #[test]
    fn answers_of_another_shape_have_another_name_and_so_has_what_leads_to_them() {
        let (read, answered) = (
            json!({"A": {"required": []}, "B": {"$ref": "#/components/schemas/A"}, "C": {"type": "string"}}),
            json!({"A": {"required": ["x"]}, "B": {"$ref": "#/components/answered/A"}, "C": {"type": "string"}}),
        );
        let others = others(&read, &answered);
        let mut all = merged(read, answered, &others);
        each(&mut all, &mut |object| lead(object, &others));
        assert_eq!(all.as_object().map(Map::len), Some(5));
        assert_eq!(all["BShown"]["$ref"], "#/components/schemas/AShown");
        assert_eq!(all["B"]["$ref"], "#/components/schemas/A");
    }
}
