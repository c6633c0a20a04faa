//! What a route says of itself: what it is called, what it reads, and what it answers, by their types.

use axum::http::StatusCode;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::job::JobId;

/// JSON's media type.
pub(crate) const JSON: &str = "application/json";
/// That of a page of the dashboard.
pub(crate) const HTML: &str = "text/html";
/// That of events which the server sends.
const EVENTS: &str = "text/event-stream";

/// Makes the schema of a type.
type Make = fn(&mut SchemaGenerator) -> Schema;

/// The name of an event, and its data.
pub(crate) type NamedEvent = (&'static str, Make);

/// An event of that name, with such data.
pub(crate) fn event<T: JsonSchema>(name: &'static str) -> NamedEvent {
    (name, SchemaGenerator::subschema_for::<T>)
}

/// Who is answered.
#[derive(Clone, Copy)]
enum Access {
    /// Whoever has the service's token, or the dashboard's cookie.
    Owner,
    /// Whoever has the token of a run.
    Mover,
    /// Anybody.
    Anybody,
}

/// A value beside the body.
struct Parameter {
    place: &'static str,
    name: &'static str,
    description: &'static str,
    make: Make,
}

/// What a body is, in one media type.
struct Content {
    media: &'static str,
    make: Make,
    events: Vec<NamedEvent>,
}

/// An answer that is no error.
struct Answer {
    status: StatusCode,
    description: &'static str,
    content: Vec<Content>,
}

/// What a route does.
pub(crate) struct Operation {
    name: &'static str,
    tag: &'static str,
    summary: &'static str,
    access: Access,
    parameters: Vec<Parameter>,
    query: Option<Make>,
    bodies: Vec<Content>,
    answers: Vec<Answer>,
    failures: Vec<StatusCode>,
}

/// The types of what is read, and of what is answered: serde need not want of a request what it writes into an answer.
pub(crate) struct Generators {
    pub(crate) read: SchemaGenerator,
    pub(crate) answered: SchemaGenerator,
}

impl Operation {
    /// An operation that only the service's owner may ask for.
    pub(crate) fn new(name: &'static str, tag: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            tag,
            summary,
            access: Access::Owner,
            parameters: Vec::new(),
            query: None,
            bodies: Vec::new(),
            answers: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Anybody may ask for it.
    pub(crate) fn open(self) -> Self {
        Self { access: Access::Anybody, ..self }
    }

    /// Movers ask for it, each with the token of its run.
    pub(crate) fn by_mover(self) -> Self {
        Self { access: Access::Mover, ..self }
    }

    /// Its path has the number of a job.
    pub(crate) fn of_job(self) -> Self {
        self.path::<JobId>("id", "The number of a job.")
    }

    /// A part of its path.
    pub(crate) fn path<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.with("path", name, description, SchemaGenerator::subschema_for::<T>)
    }

    /// A header that it reads.
    pub(crate) fn header<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.with("header", name, description, SchemaGenerator::subschema_for::<T>)
    }

    fn with(
        mut self,
        place: &'static str,
        name: &'static str,
        description: &'static str,
        make: Make,
    ) -> Self {
        self.parameters.push(Parameter { place, name, description, make });
        self
    }

    /// Its query has the fields of `T`.
    pub(crate) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    /// It reads JSON.
    pub(crate) fn reads<T: JsonSchema>(self) -> Self {
        self.reads_as::<T>(JSON)
    }

    /// It reads such a body.
    pub(crate) fn reads_as<T: JsonSchema>(mut self, media: &'static str) -> Self {
        self.bodies.push(Content::of::<T>(media));
        self
    }

    /// It answers JSON.
    pub(crate) fn answers<T: JsonSchema>(self, status: StatusCode, description: &'static str) -> Self {
        self.answers_as::<T>(status, description, JSON)
    }

    /// It answers such a body.
    pub(crate) fn answers_as<T: JsonSchema>(
        mut self,
        status: StatusCode,
        description: &'static str,
        media: &'static str,
    ) -> Self {
        self.answers.push(Answer { status, description, content: vec![Content::of::<T>(media)] });
        self
    }

    /// It answers without a body that is told more of.
    pub(crate) fn says(mut self, status: StatusCode, description: &'static str) -> Self {
        self.answers.push(Answer { status, description, content: Vec::new() });
        self
    }

    /// Events are what it answers, or what it answers otherwise with the status said last.
    pub(crate) fn events(mut self, events: impl IntoIterator<Item = NamedEvent>) -> Self {
        let events = events.into_iter().collect();
        if let Some(answer) = self.answers.last_mut() {
            answer.content.push(Content { events, ..Content::of::<String>(EVENTS) });
        }
        self
    }

    /// It fails with that status in a way of its own.
    pub(crate) fn fails(mut self, status: StatusCode) -> Self {
        self.failures.push(status);
        self
    }

    /// As the document has it.
    pub(crate) fn write(&self, generators: &mut Generators) -> Value {
        let mut written = Map::from_iter([
            ("operationId".to_owned(), self.name.into()),
            ("tags".to_owned(), json!([self.tag])),
            ("summary".to_owned(), self.summary.into()),
            ("responses".to_owned(), self.responses(&mut generators.answered)),
        ]);
        let read = &mut generators.read;
        let named = self.parameters.iter().map(|parameter| parameter.write(read));
        let mut parameters: Vec<Value> = named.collect();
        parameters.extend(self.query.map(|make| fields(make(read))).into_iter().flatten());
        if !parameters.is_empty() {
            written.insert("parameters".to_owned(), parameters.into());
        }
        if !self.bodies.is_empty() {
            let content = contents(&self.bodies, read);
            written.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
        }
        match self.access {
            Access::Owner => {}
            Access::Mover => drop(written.insert("security".to_owned(), json!([{"mover": []}]))),
            Access::Anybody => drop(written.insert("security".to_owned(), json!([]))),
        }
        written.into()
    }

    fn responses(&self, generator: &mut SchemaGenerator) -> Value {
        let problem = json!({"$ref": "#/components/responses/Problem"});
        let failures = self.failures.iter().map(|status| (status.as_str().to_owned(), problem.clone()));
        let mut responses: Map<String, Value> = failures.collect();
        responses.insert("default".to_owned(), problem.clone());
        for Answer { status, description, content } in &self.answers {
            let mut answer = Map::from_iter([("description".to_owned(), (*description).into())]);
            if !content.is_empty() {
                answer.insert("content".to_owned(), contents(content, generator));
            }
            responses.insert(status.as_str().to_owned(), answer.into());
        }
        responses.into()
    }
}

impl Parameter {
    fn write(&self, generator: &mut SchemaGenerator) -> Value {
        json!({
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "description": self.description,
            "schema": (self.make)(generator),
        })
    }
}

impl Content {
    fn of<T: JsonSchema>(media: &'static str) -> Self {
        Self { media, make: SchemaGenerator::subschema_for::<T>, events: Vec::new() }
    }
}

fn contents(contents: &[Content], generator: &mut SchemaGenerator) -> Value {
    let mut write = |content: &Content| {
        let mut written = json!({"schema": (content.make)(generator)});
        for (name, make) in &content.events {
            written["x-events"][*name] = make(generator).to_value();
        }
        (content.media.to_owned(), written)
    };
    Value::Object(contents.iter().map(&mut write).collect())
}

/// The fields of an object as parameters of a query.
fn fields(mut object: Schema) -> Vec<Value> {
    let required = object.remove("required").unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.contains(&name.into()));
    let Some(Value::Object(fields)) = object.remove("properties") else { return Vec::new() };
    let write = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let required = is_required(&name);
        json!({"name": name, "in": "query", "required": required, "description": description, "schema": schema})
    };
    fields.into_iter().map(write).collect()
}
