//! What `tidegate movers` hands to engines: scripts and manifests that their own readers take, words that stay what they
//! are whatever they hold, and movers that are started again, ended and told of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ran, World, eventually, finish, signal, wait};
use rustix::process::Signal;
use serde_json::Value;
use tidegate_control::Rng;

const URL: &str = "http://127.0.0.1:7118";
const TOKEN: &str = "a-token-that-nobody-may-see";

/// Words that a careless script would act on.
const HOSTILE: [&str; 8] = [
    "'",
    "\"",
    "$(touch owned)",
    "`touch owned`",
    "\n#SBATCH --wrap=x\n",
    "%A_%a",
    "\\$HOME \\",
    "; touch owned #é",
];

/// A name of some hostile words, chosen by a seed.
fn hostile(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    (0..3).map(|_| HOSTILE[rng.below(8) as usize]).collect::<String>().replace('/', "-")
}

/// A program that stands for movers: it writes down its words, and does what a script says.
fn stub(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("allowed");
}

/// A world with a token.
fn world() -> World {
    let world = World::new();
    world.write("token", TOKEN);
    fs::set_permissions(world.path("token"), fs::Permissions::from_mode(0o600)).expect("allowed");
    world
}

/// What is printed for an engine.
fn printed(world: &World, engine: &str, token: &Path, program: &Path, more: &[&str]) -> String {
    let mut command = world.command();
    command.args(["movers", "--print", "--service", URL, "--engine", engine, "--token-file"]).arg(token);
    let ran = finish(command.arg("--mover-path").arg(program).args(more));
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert!(!ran.out.contains(TOKEN), "the token stands in it");
    ran.out
}

/// The words that a stub was started with; a zero byte ends each.
fn words(world: &World) -> Vec<String> {
    let told = world.read("told");
    let mut words: Vec<String> =
        told.split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    words.pop();
    words
}

fn run_sh(world: &World, script: &str) {
    for shell in [&["bash", "-n"][..], &["sh"]] {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).current_dir(world.path("")).env("HOME", world.path(""));
        world.write("script", script);
        let ran = finish(command.arg(world.path("script")).stdin(Stdio::null()));
        assert_eq!(ran.code, 0, "{ran:?}\n{script}");
    }
}

/// Python with a module, if there is one, for a question about a file that is read by others' readers.
fn ask_python(program: &str, code: &str, text: &str) -> Ran {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(["-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("read");
    wait(child)
}

/// A Python that has a module; the scripts that run tests put one under a name of its own.
fn python_with(test: &str, names: &[&'static str], module: &str) -> Option<&'static str> {
    let has = |name: &&&'static str| {
        let mut command = Command::new(**name);
        command.args(["-c", &format!("import {module}")]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = names.iter().find(has).copied();
    if found.is_none() {
        testkit::skip(test, &format!("no Python here has the module {module}"));
    }
    found
}

#[test]
fn hostile_paths_stay_one_word_in_scripts() {
    let world = world();
    for seed in 1..=6 {
        let name = hostile(seed);
        let (program, token) = (world.path(format!("p{name}/mover")), world.path(format!("t{name}")));
        stub(&program, "printf '%s\\0' \"$@\" >told");
        for engine in ["slurm", "pbs", "local"] {
            let script = printed(&world, engine, &token, &program, &[]);
            run_sh(&world, &script);
            let token = token.to_str().expect("text");
            assert_eq!(
                words(&world),
                ["mover", "--service", URL, "--token-file", token],
                "seed {seed}: {script}"
            );
            // Engines read options up to the first line that does something.
            let head = script.lines().take_while(|line| line.is_empty() || line.starts_with('#'));
            let options: Vec<&str> = head.filter(|line| line.starts_with("#SBATCH")).collect();
            assert!(engine != "slurm" || options.len() == 10, "seed {seed}: none is added: {options:?}");
        }
        assert!(!world.path("owned").exists(), "seed {seed}");
    }
}

#[test]
fn hostile_paths_stay_one_string_in_a_program_for_dask() {
    let world = world();
    for seed in 1..=6 {
        let (program, token) = (world.path(hostile(seed)), world.path(hostile(seed + 100)));
        let text = printed(&world, "dask:tcp://head:8786", &token, &program, &["--movers", "4"]);
        let code = "import ast, json, sys
tree = ast.parse(sys.stdin.read())
call = tree.body[-1].body[0].value.args[0]
print(json.dumps([ast.literal_eval(each) for each in call.args]))";
        let ran = ask_python("python3", code, &text);
        assert_eq!(ran.code, 0, "{ran:?}");
        let called: Value = serde_json::from_str(&ran.out).expect("JSON");
        let command = ["mover", "--service", URL, "--token-file"].map(str::to_owned);
        let command = [
            &[program.to_str().expect("text").to_owned()],
            &command[..],
            &[token.to_str().expect("text").to_owned()],
        ];
        assert_eq!(
            called,
            serde_json::json!(["tcp://head:8786", "tidegate", 4, command.concat()]),
            "seed {seed}"
        );
    }
}

#[test]
fn kubernetes_takes_the_manifest_and_expands_nothing_in_it() {
    let test = "kubernetes_takes_the_manifest_and_expands_nothing_in_it";
    let Some(python) = python_with(test, &["kubernetes-python", "python3"], "kubernetes_validate") else {
        return;
    };
    let world = world();
    let code = "import json, sys, yaml, kubernetes_validate
job = yaml.safe_load(sys.stdin)
kubernetes_validate.validate(job, '1.33', strict=True)
print(json.dumps(job))";
    for seed in 1..=3 {
        let program = PathBuf::from(format!("/opt/{}", hostile(seed).replace('/', "-")));
        let mount = format!("/data{}", hostile(seed + 50).replace(':', "-"));
        let more = [
            "--image",
            "registry.example/tidegate:1",
            "--movers",
            "8",
            "--at-once",
            "3",
            "--partition",
            "dtn",
        ];
        let mounts = ["--mount", "claim:/scratch", "--mount", &mount];
        let text =
            printed(&world, "kubernetes", &world.path("token"), &program, &[&more[..], &mounts].concat());
        let ran = ask_python(python, code, &text);
        assert_eq!(ran.code, 0, "seed {seed}: {ran:?}\n{text}");
        let job: Value = serde_json::from_str(&ran.out).expect("JSON");
        let pod = &job["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let command = container["command"][0].as_str().expect("a word");
        assert!(!command.replace("$$", "").contains('$'), "{command}");
        assert_eq!(Path::new(&command.replace("$$", "$")), program, "seed {seed}");
        assert_eq!(container["volumeMounts"][2]["mountPath"], mount.as_str());
        assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], 0o400);
        assert_eq!(job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"][0], 78);
    }
}

#[test]
fn htcondor_takes_the_submit_file_and_expands_nothing_in_it() {
    let test = "htcondor_takes_the_submit_file_and_expands_nothing_in_it";
    let Some(python) = python_with(test, &["htcondor-python", "python3"], "htcondor2") else { return };
    let world = world();
    let code = "import htcondor2, sys
submit = htcondor2.Submit(sys.stdin.read())
print(submit.expand('executable'), submit.expand('arguments'), submit.getQArgs(), submit.expand('max_retries'), sep='\\0', end='')";
    for seed in 1..=3 {
        let name = hostile(seed).replace('\n', " ");
        let (program, token) = (world.path(format!("{name}.")), world.path(format!("{name}t")));
        let text = printed(
            &world,
            "condor",
            &token,
            &program,
            &["--movers", "5", "--engine-option", "request_cpus=2"],
        );
        let ran = ask_python(python, code, &text);
        assert_eq!(ran.code, 0, "seed {seed}: {ran:?}\n{text}");
        let read: Vec<&str> = ran.out.split('\0').collect();
        let quoted = token.to_str().expect("text").replace('\'', "''").replace('"', "\"\"");
        assert_eq!(read[0], program.to_str().expect("text"), "seed {seed}");
        assert!(read[1].ends_with(&format!(" '{quoted}'\"")), "seed {seed}: {} in {}", quoted, read[1]);
        assert_eq!(read[2..], ["5", "100"], "seed {seed}");
    }
    let mut command = world.command();
    command.args(["movers", "--print", "--service", URL, "--engine", "condor", "--token-file", "a\nb"]);
    let ran = finish(&mut command);
    assert!(ran.code == 2 && ran.err.contains("cannot say"), "{ran:?}");
}

#[test]
fn what_makes_no_sense_is_said_in_one_line() {
    let world = world();
    for (words, said) in [
        (&["--movers", "0"][..], "is not in 1..=10000"),
        (&["--engine", "mesos"], "engines are local, ssh:host1,host2, slurm"),
        (&["--engine", "ssh:"], "name the hosts"),
        (&["--engine", "ssh:a,-oProxyCommand=x"], "is no host for ssh"),
        (&["--engine", "ssh:a,$(touch owned)"], "is no host for ssh"),
        (&["--engine", "ssh:a\nb"], "is no host for ssh"),
        (&["--engine", "dask"], "name its scheduler"),
        (&["--engine", "kubernetes"], "by --image"),
        (&["--engine", "slurm", "--partition", "a\n#SBATCH --wrap=x"], "is no name"),
        (&["--engine", "slurm", "--engine-option", "time=1\nx"], "a value is of letters"),
        (&["--engine", "ssh:a", "--partition", "dtn"], "--partition means nothing to this engine"),
        (&["--engine", "condor", "--partition", "dtn"], "--partition means nothing to this engine"),
        (&["--name", "Tidegate;x"], "--name is of at most 50 small letters"),
        (&["--service", "head:7118"], "is no address of a service"),
        (&["--token-file", "nowhere"], "cannot read"),
        (&["--engine", "slurm", "--movers", "2"], "sbatch is not installed here: install slurm-client"),
        (&["--engine", "pbs"], "qsub is not installed here"),
    ] {
        let mut command = world.command();
        command.env("PATH", world.path("nothing")).args(["movers"]);
        for (option, value) in [("--service", URL), ("--token-file", "token")] {
            if !words.contains(&option) {
                command.args([option, value]);
            }
        }
        let ran = finish(command.args(words));
        assert!(
            ran.code != 0 && ran.err.contains(said) && ran.err.lines().count() == 1,
            "{words:?}: {ran:?}"
        );
    }
    assert!(!world.path("owned").exists());
}

/// A command in an environment in which movers are what a script does.
fn with_movers(world: &World, script: &str, more: &[&str]) -> Command {
    stub(&world.path("bin/tidegate"), script);
    let mut command = world.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", world.text("bin")));
    command.args([
        "movers",
        "--service",
        URL,
        "--token-file",
        "token",
        "--mover-path",
        &world.text("bin/tidegate"),
    ]);
    command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn movers_here_are_started_again_where_that_may_help() {
    let world = world();
    // Each leaves once while there is more to do.
    let script = "echo x >>begun; [ \"$(wc -l <begun)\" -gt 3 ] || exit 75";
    let ran = finish(&mut with_movers(&world, script, &["--movers", "3"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.trim_end().ends_with("movers on this host: 0 run, 3 have ended"), "{ran:?}");
    assert_eq!(world.read("begun").len(), 2 * 6, "three left once");
    // What never can run is not tried again.
    let ran = finish(&mut with_movers(&world, "echo x >>tried; exit 78", &[]));
    assert_eq!((ran.code, world.read("tried").len()), (1, 2), "{ran:?}");
    assert!(ran.err.contains("1 failed (it says above why it cannot run)"), "{ran:?}");
}

#[test]
fn movers_end_with_the_command_that_started_them() {
    let world = world();
    let script = "trap 'echo left >>ends; exit 75' TERM; echo here >>begun; while :; do sleep 0.05; done";
    let child = with_movers(&world, script, &["--movers", "2"]).spawn().expect("started");
    eventually(|| fs::read(world.path("begun")).is_ok_and(|begun| begun.len() == 10));
    signal(child.id(), Signal::INT);
    let ran = wait(child);
    assert!(ran.code == 130 && ran.err.contains("its movers were asked to end"), "{ran:?}");
    assert_eq!(world.read("ends"), b"left\nleft\n", "each gave back what it held");
}

#[test]
fn ssh_tells_movers_what_they_need_on_standard_input_only() {
    let world = world();
    // As sshd does: a shell is given the last word. What stood in the list of arguments is written down.
    stub(
        &world.path("ssh"),
        "printf '%s ' \"$@\" >>sshd; for last; do :; done; cd \"$HOME\" && exec sh -c \"$last\"",
    );
    let ssh = world.text("ssh");
    let ca = world.text("it's $(touch owned).pem");
    let hosts = ["--ssh", &ssh, "--server-ca", &ca, "--engine", "ssh:one,me@two"];
    fs::create_dir_all(world.path("home/.local/bin")).expect("made");
    let mover = "printf '%s ' \"$@\" >told.$$; cat >>told.$$; echo a complaint >&2; exit 78";
    stub(&world.path("home/.local/bin/tidegate"), mover);
    let command = |more: &[&str]| {
        let mut command = world.command();
        command.args(["movers", "--service", URL, "--token-file", "token"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // What each was told, which is kept no longer.
    let told = || -> Vec<String> {
        let names = world.tree("home").into_iter().filter(|name| name.starts_with("told."));
        let paths: Vec<PathBuf> = names.map(|name| world.path("home").join(name)).collect();
        let texts = paths.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
        paths.iter().for_each(|path| fs::remove_file(path).expect("there"));
        texts
    };
    let ran = finish(&mut command(&hosts));
    let line = format!("mover --service {URL} --token-file - --server-ca {ca} {TOKEN}\n");
    assert_eq!(told(), [&*line, &*line]);
    assert!(ran.code == 1 && ran.err.contains("the mover at ssh://one cannot run: a complaint"), "{ran:?}");
    let seen = String::from_utf8(world.read("sshd")).expect("text");
    assert!(!seen.contains(TOKEN) && !seen.contains(URL), "{seen}");
    assert!(seen.contains("-- one ") && seen.contains("-- me@two "), "{seen}");
    // Printed, it does the same.
    let script = finish(command(&hosts).arg("--print"));
    assert!(script.code == 0 && !script.out.contains(TOKEN), "{script:?}");
    world.write("script", script.out);
    finish(Command::new("sh").arg("script").current_dir(world.path("")).env("HOME", world.path("home")));
    let line = line.trim_end();
    assert_eq!(told(), [line, line], "the file ends without a line's end");
    // They end when we do, although nobody over there was told.
    let mover = "trap 'echo left >>ends; exit 75' TERM; echo here >>begun; while :; do sleep 0.05; done";
    stub(&world.path("home/.local/bin/tidegate"), mover);
    let child = command(&hosts).spawn().expect("started");
    eventually(|| fs::read(world.path("home/begun")).is_ok_and(|begun| begun.len() == 10));
    signal(child.id(), Signal::KILL);
    wait(child);
    eventually(|| fs::read(world.path("home/ends")).is_ok_and(|ends| ends == b"left\nleft\n"));
}

#[test]
fn the_token_reaches_kubernetes_by_a_secret_that_goes_with_the_job() {
    let world = world();
    let script = "printf '%s ' \"$@\" >>said
case \"$1 $2\" in
*filename*) cat >>given; echo '{\"metadata\": {\"uid\": \"the-uid\"}}' ;;
get*) n=$(cat turn 2>/dev/null || echo 0); echo $((n + 1)) >turn
    [ \"$n\" -gt 0 ] && s='\"succeeded\": 2' || s='\"active\": 2, \"ready\": 1'
    echo \"{\\\"items\\\": [{\\\"kind\\\": \\\"Job\\\", \\\"status\\\": {$s}}]}\" ;;
esac";
    stub(&world.path("bin/kubectl"), script);
    let mut command = world.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", world.text("bin")));
    command.args([
        "movers",
        "--service",
        URL,
        "--token-file",
        "token",
        "--engine",
        "kubernetes",
        "--movers",
        "2",
    ]);
    let ran = finish(command.args(["--image", "tidegate:1", "--partition", "dtn", "--name", "run-17"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Vec<&str> = ran.err.lines().collect();
    assert_eq!(told, ["Kubernetes job run-17: 1 run, 1 wait", "Kubernetes job run-17: 0 run, 2 have ended"]);
    let (said, given) = (world.read("said"), String::from_utf8(world.read("given")).expect("text"));
    let said = String::from_utf8(said).expect("text");
    let encoded = data_encoding::BASE64.encode(TOKEN.as_bytes());
    assert!(given.contains(&encoded) && given.contains("\"uid\":\"the-uid\""), "{given}");
    assert!(!said.contains(TOKEN) && !said.contains(&encoded) && said.contains("--namespace=dtn"), "{said}");
}

/// What examples/ holds is what is printed.
#[test]
fn the_examples_are_what_is_printed() {
    let world = world();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/movers"));
    let common =
        ["movers", "--print", "--service", "https://head.example:7118", "--name", "run42", "--movers", "8"];
    let place = ["--token-file", "/home/me/.tidegate/run42.token", "--mover-path", "/usr/local/bin/tidegate"];
    for (file, more) in [
        (
            "slurm.sbatch",
            &["--engine", "slurm", "--partition", "dtn", "--engine-option", "time=12:00:00"][..],
        ),
        ("pbs.sh", &["--engine", "pbs", "--partition", "dtn", "--engine-option", "walltime=12:00:00"]),
        ("condor.submit", &["--engine", "condor", "--engine-option", "request_cpus=2"]),
        (
            "kubernetes.yaml",
            &["--engine", "kubernetes", "--image", "registry.example/tidegate:0.1", "--mount", "/lustre"],
        ),
        ("dask.py", &["--engine", "dask:tcp://head.example:8786"]),
        ("ssh.sh", &["--engine", "ssh:dtn1,dtn2"]),
    ] {
        let out = world.ok(&[&common[..], &place, more].concat());
        let there = fs::read_to_string(examples.join(file)).unwrap_or_default();
        assert!(out == there, "examples/movers/{file} should be:\n{out}");
    }
}
