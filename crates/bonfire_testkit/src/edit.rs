//! Random edits of types: what the author of a game does to them between two releases, wise or not.

use bonfire::schema::Type;

use crate::shape::{KEYS, NUMBERS, Part, Shape};

/// What an edit is made of: where, what, and how.
pub type Pick = [u32; 3];

/// Applies edits, each at some type of the tree.
pub fn edit(shape: &mut Shape, picks: &[Pick]) {
    for (number, pick) in picks.iter().enumerate() {
        let mut places = Vec::new();
        collect(shape, false, &mut vec![], &mut places);
        let (path, is_key) = places.swap_remove(pick[0] as usize % places.len());
        edit_one(at(shape, &path), is_key, pick[1], pick[2] as usize, &format!("new_{number}"));
    }
    renew_defaults(shape);
}

/// Types that changed after they got a default have another one.
fn renew_defaults(shape: &mut Shape) {
    shape.children_mut().into_iter().for_each(renew_defaults);
    if let Shape::Tuple(parts) | Shape::Struct(parts, _) = shape {
        for part in parts.iter_mut().filter(|part| part.default.is_some()) {
            part.default = Some(part.shape.some_value());
        }
    }
}

/// Applies edits that lose nothing on the way to the new type and back: fields of structs that are not inside other things
/// come, go, move and get other names. The old type gets to know the new names, as a patch of the old release would.
pub fn edit_fields(old: &mut Shape, new: &mut Shape, picks: &[Pick]) {
    for (number, pick) in picks.iter().enumerate() {
        let mut places = Vec::new();
        structs(new, &mut vec![], &mut places);
        if places.is_empty() {
            return;
        }
        let path = places.swap_remove(pick[0] as usize % places.len());
        let Shape::Struct(fields, _) = at_named(new, &path) else { return };
        let (name, how) = (format!("new_{number}"), pick[2] as usize);
        match pick[1] % 4 {
            0 => {
                let shape = leaf(how);
                let default = Some(shape.some_value());
                fields.insert(how % (fields.len() + 1), Part { default, ..Part::new(name, shape) });
            }
            1 if !fields.is_empty() => drop(fields.remove(how % fields.len())),
            2 if !fields.is_empty() => {
                let count = fields.len();
                fields.rotate_left(how % count);
            }
            3 if !fields.is_empty() => {
                let number = how % fields.len();
                let field = &mut fields[number];
                let was = std::mem::replace(&mut field.name, name.clone());
                field.aliases.push(was);
                let names = [field.aliases.clone(), vec![name.clone()]].concat();
                learn(old, &path, &names, &name);
            }
            _ => {}
        }
    }
}

/// Tells the field of the old type, if there is one, its new name.
fn learn(old: &mut Shape, path: &[Vec<String>], names: &[String], new: &str) {
    let mut at = old;
    for step in path {
        let Shape::Struct(fields, _) = at else { return };
        let Some(field) = fields.iter_mut().find(|field| step.contains(&field.name)) else { return };
        at = &mut field.shape;
    }
    let Shape::Struct(fields, _) = at else { return };
    if let Some(field) = fields.iter_mut().find(|field| names.contains(&field.name)) {
        field.aliases.push(new.to_owned());
    }
}

/// The structs that are reached through structs only, by all names of the fields on the way.
fn structs(shape: &Shape, path: &mut Vec<Vec<String>>, places: &mut Vec<Vec<Vec<String>>>) {
    if let Shape::Struct(fields, _) = shape {
        places.push(path.clone());
        for field in fields {
            path.push([field.aliases.clone(), vec![field.name.clone()]].concat());
            structs(&field.shape, path, places);
            path.pop();
        }
    }
}

fn at_named<'a>(shape: &'a mut Shape, path: &[Vec<String>]) -> &'a mut Shape {
    path.iter().fold(shape, |shape, step| match shape {
        Shape::Struct(fields, _) => {
            let field = fields.iter_mut().find(|field| step.last() == Some(&field.name));
            &mut field.expect("a field on the path").shape
        }
        _ => unreachable!("only structs have names"),
    })
}

/// All types of the tree by the way to them, and whether they are part of a key.
fn collect(shape: &Shape, is_key: bool, path: &mut Vec<usize>, places: &mut Vec<(Vec<usize>, bool)>) {
    places.push((path.clone(), is_key));
    for (number, child) in shape.children().into_iter().enumerate() {
        let key = is_key || matches!(shape, Shape::Set(_)) || matches!(shape, Shape::Map(..)) && number == 0;
        path.push(number);
        collect(child, key, path, places);
        path.pop();
    }
}

fn at<'a>(shape: &'a mut Shape, path: &[usize]) -> &'a mut Shape {
    path.iter().fold(shape, |shape, number| shape.children_mut().swap_remove(*number))
}

fn leaf(how: usize) -> Shape {
    let others = [Type::Unit, Type::Text, Type::Bool, Type::Entity];
    Shape::Leaf([&NUMBERS[..], &others].concat()[how % (NUMBERS.len() + others.len())].clone())
}

fn edit_one(shape: &mut Shape, is_key: bool, what: u32, how: usize, name: &str) {
    let inner = || Box::new(Shape::Leaf(Type::Unit));
    let take = |shape: &mut Shape| std::mem::replace(shape, Shape::Leaf(Type::Unit));
    match (what % 10, &mut *shape) {
        (0, _) => *shape = Shape::Option(Box::new(take(shape))),
        (1, _) if !is_key => *shape = Shape::Leaf(Type::Dynamic),
        (2.., Shape::Leaf(ty)) => match ty {
            ty if NUMBERS.contains(ty) => *ty = NUMBERS[how % NUMBERS.len()].clone(),
            Type::Bytes if what.is_multiple_of(2) => {
                *shape = Shape::List(Box::new(Shape::Leaf(NUMBERS[how % 12].clone())));
            }
            Type::Unit if !is_key => {
                let byte = Shape::Leaf(Type::U8);
                let field =
                    |name: &str| Part { default: Some(byte.some_value()), ..Part::new(name, byte.clone()) };
                *shape = match how % 2 {
                    0 => Shape::Struct(vec![field(name)], vec![]),
                    _ => Shape::Tuple(vec![field("")]),
                };
            }
            ty => *ty = KEYS[how % KEYS.len()].clone(),
        },
        (_, Shape::Option(some)) => *shape = take(some),
        (_, Shape::Set(element)) => *shape = Shape::List(std::mem::replace(element, inner())),
        (2..6, Shape::Array(element, _)) => {
            let bytes = **element == Shape::Leaf(Type::U8) && how.is_multiple_of(2);
            *shape = match bytes {
                true => Shape::Leaf(Type::Bytes),
                false => Shape::List(std::mem::replace(element, inner())),
            };
        }
        (_, Shape::Array(_, len)) => *len = (*len + how as u64) % 4,
        (_, Shape::List(element)) => {
            // A set wants keys.
            if let Shape::Leaf(ty) = &**element
                && KEYS.contains(ty)
            {
                *shape = Shape::Set(std::mem::replace(element, inner()));
            }
        }
        (_, Shape::Map(..)) => {}
        (what, Shape::Tuple(fields)) => match what {
            2..5 => {
                let shape = if is_key { Shape::Leaf(Type::U16) } else { leaf(how) };
                let default = (what < 4).then(|| shape.some_value());
                fields.push(Part { default, ..Part::new("", shape) });
            }
            5..8 => drop(fields.pop()),
            8 if !fields.is_empty() => {
                let count = fields.len();
                fields.rotate_left(how % count);
            }
            _ if !is_key => *shape = Shape::Leaf(Type::Unit),
            _ => {}
        },
        (what, Shape::Struct(fields, removed)) => edit_struct(fields, removed, is_key, what, how, name),
        (what, Shape::Enum(variants)) => edit_enum(variants, what, how, name),
        _ => {}
    }
}

fn edit_struct(
    fields: &mut Vec<Part>,
    removed: &mut Vec<String>,
    is_key: bool,
    what: u32,
    how: usize,
    name: &str,
) {
    let count = fields.len();
    match what {
        2 | 3 => {
            let shape = if is_key { Shape::Leaf(Type::U16) } else { leaf(how) };
            let default = (what == 2).then(|| shape.some_value());
            fields.insert(how % (count + 1), Part { default, ..Part::new(name, shape) });
        }
        4 | 5 if count > 0 => {
            let gone = fields.remove(how % count);
            removed.extend((what == 5).then_some(gone.name));
        }
        6 | 7 if count > 0 => rename(&mut fields[how % count], what == 6, name),
        8 if count > 0 => fields.rotate_left(how % count),
        9 if count > 1 => fields.swap(0, how % count),
        _ => {}
    }
}

fn edit_enum(variants: &mut Vec<Part>, what: u32, how: usize, name: &str) {
    let count = variants.len();
    match what {
        2 | 3 => variants.insert(how % (count + 1), Part::new(name, leaf(how))),
        4 if count > 1 => drop(variants.remove(how % count)),
        5 | 6 => rename(&mut variants[how % count], true, name),
        7 => rename(&mut variants[how % count], false, name),
        _ => variants.rotate_left(how % count),
    }
}

fn rename(part: &mut Part, with_alias: bool, name: &str) {
    let was = std::mem::replace(&mut part.name, name.to_owned());
    if with_alias {
        part.aliases.push(was);
    }
}
