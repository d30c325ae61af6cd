//! Objects as text, for kubectl, and from it.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;

use serde_json::Value;

/// A YAML document for each object, behind comments for people.
pub fn write(notes: &[String], objects: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    for note in notes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# {note}");
    }
    for object in objects {
        let document = serde_saphyr::to_string(object).map_err(|error| error.to_string())?;
        text += "---\n";
        text += document.trim_end();
        text.push('\n');
    }
    Ok(text)
}

/// All objects in these files, those in Lists, too. `-` is standard input.
pub fn read(files: &[PathBuf]) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for file in files {
        let name = file.display();
        let text = if file.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(file)
        };
        let text = text.map_err(|error| format!("cannot read {name}: {error}"))?;
        objects.extend(parse(&text).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(objects)
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        let error = error.to_string();
        format!("is no YAML: {}", error.lines().next().unwrap_or_default())
    })?;
    let mut objects = Vec::new();
    for mut document in documents {
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => objects.extend(items),
            _ if document.is_null() => {}
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let objects = [
            json!({"kind": "A", "spec": {"ranges": ["203.0.113.0/24", "2001:db8::1", "007", "yes"]}}),
            json!({"kind": "B"}),
        ];
        let text = write(&["said once".to_owned()], &objects).unwrap();
        assert!(text.starts_with("# said once\n---\nkind: A\n"), "{text}");
        assert_eq!(parse(&text).unwrap(), objects);
    }

    #[test]
    fn lists_are_taken_apart_and_nothing_else_is_read() {
        let text = "---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n---\nkind: C\n";
        let kinds: Vec<_> = parse(text).unwrap().into_iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(parse(r#"{"items": [{"kind": "A"}]}"#).unwrap(), [json!({"kind": "A"})]);
        assert!(parse("a: [").unwrap_err().starts_with("is no YAML"));
    }
}
