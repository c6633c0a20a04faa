//! Help pages and messages, beside what was last reviewed: `INSTA_UPDATE=always cargo test --workspace --test it -- words::`
//! writes them anew, and the difference is part of the change.

use insta::{Settings, assert_snapshot};

use crate::common::World;

/// Holds `text` beside the reviewed one of that name.
fn reviewed(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("words");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| assert_snapshot!(name, text.replace(env!("CARGO_PKG_VERSION"), "VERSION")));
}

/// The commands that a help page lists.
fn commands(page: &str) -> Vec<String> {
    let listed = page
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    let name = |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
    let names = listed.lines().filter_map(|line| name(line)?.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// Holds the help page of a command beside the reviewed one, and those of the commands that it has.
fn help(world: &World, command: &[String]) {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let page = world.ok(&words);
    reviewed(&[&["tidegate".to_owned()], command].concat().join("-"), &page);
    for inner in commands(&page) {
        help(world, &[command, &[inner]].concat());
    }
}

#[test]
fn help_pages_are_as_they_were_reviewed() {
    help(&World::new(), &[]);
}

/// A line without how long it took, which is the machine's.
fn untimed(line: &str) -> String {
    let told = "nothing new after ";
    match line.split_once(told).and_then(|(before, rest)| Some((before, rest.split_once(" s, ")?.1))) {
        Some((before, rest)) => format!("{before}{told}TIME s, {rest}"),
        None => line.to_owned(),
    }
}

#[test]
fn messages_are_as_they_were_reviewed() {
    let world = World::new();
    world.write("dir/file", "file");
    world.write("jobs.toml", "[[job]]\nsource = \"dir\"\n");
    world.write("list", "https://h/a\nhttps://h/a b\n");
    let lines = [
        "",
        "cpoy dir x",
        "copy dir",
        "copy dir x --no-such",
        "copy nowhere x/",
        "copy dir dir/in",
        "copy dir/ dir/",
        "copy dir x --limit-network fast",
        "copy dir x --max-size ten",
        "copy dir x --optimizer nosuch",
        "copy dir x --newer-than yesterday",
        "copy dir tg://nobody@127.0.0.1:1/",
        "copy dir tg://127.0.0.1:1/",
        "copy dir none:x/",
        "copy --delete --max-size 1 dir/ dir/",
        "verify dir nowhere",
        "get",
        "get SRR",
        "get ftp://user@/x",
        "get gopher://h/x",
        "get --checksum sha256:12 https://h/x",
        "put nowhere s3://bucket/",
        "ls nowhere/",
        "hash nowhere",
        "endpoint --root nowhere",
        "endpoint --listen nowhere --root dir",
        "remote add x dir",
        "ticket --expires never h",
        "share nowhere",
        "submit jobs.toml --server http://127.0.0.1:1",
        "job 1 --server http://127.0.0.1:1",
        "estimate dir tg://x@127.0.0.1:1/",
        "simulate --scenario nowhere.toml",
        "simulate --scenario dir/file",
        "explore --from nowhere",
        "history import nowhere",
        "movers --engine nosuch",
    ];
    let said = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = world.run(&words);
        let said = [ran.out, ran.err].concat().replace(&world.text(""), "HERE/");
        let said: Vec<String> = said.split('\n').map(untimed).collect();
        let said = said.join("\n");
        format!("$ tidegate {line}\n{said}[{}]\n", ran.code)
    };
    reviewed("messages", &lines.iter().map(said).collect::<Vec<_>>().join("\n"));
}
