//! Types of glam: bulk copies give the same bytes and values as their portable twins. Needs the feature `glam_0_33`.
#![cfg(feature = "glam_0_33")]

use bonfire::engine::{EntityMap, LoadPlan, SnapshotWriter};
use bonfire::inspect::ColumnKind;
use bonfire::schema::{Node, SchemaBuilder};
use bonfire::{Descriptor, EntityId, LoadOptions, Persist, Registry, Snapshot};
use glam::*;

fn bulk_equals_portable<T: Persist + PartialEq + std::fmt::Debug + Clone>(value: T, kind: ColumnKind) {
    let mut registry = Registry::new();
    registry.add(Descriptor::new::<T>("t")).unwrap();
    assert_eq!(registry.descriptors()[0].kind(), kind, "{}", std::any::type_name::<T>());
    let encode = |portable: bool| {
        let mut writer = SnapshotWriter::new(&registry);
        writer = if portable { writer.portable() } else { writer };
        let mut archetype = writer.archetype(&[EntityId::new(0, 0), EntityId::new(1, 0)]).unwrap();
        archetype.column(&[value.clone(), value.clone()]).unwrap();
        writer.finish().unwrap().encode(&Default::default()).unwrap().to_vec()
    };
    assert_eq!(encode(false), encode(true), "{}", std::any::type_name::<T>());
    for portable in [false, true] {
        let snapshot = Snapshot::open(&encode(false)).unwrap();
        let options = LoadOptions { portable, ..Default::default() };
        let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
        let map = EntityMap::identity(&plan.entities()).unwrap();
        let mut staged = plan.stage(&map, None).unwrap();
        let rows = staged.archetypes[0].take::<T>().unwrap().into_rows::<T>().unwrap();
        assert_eq!(rows, [value.clone(), value.clone()]);
    }
}

#[test]
fn vectors_and_matrices_come_back() {
    use ColumnKind::{Plain, Rows, Strided};
    let v = Vec4::new(1.0, -2.0, f32::MIN_POSITIVE, f32::MAX);
    bulk_equals_portable(v, Plain);
    bulk_equals_portable(v.truncate(), Plain);
    bulk_equals_portable(v.truncate().truncate(), Plain);
    bulk_equals_portable(Vec3A::from(v.truncate()), Rows);
    bulk_equals_portable(Quat::from_array([0.1, 0.2, 0.3, 0.4]), Plain);
    bulk_equals_portable(DQuat::from_array([0.1, 0.2, 0.3, 0.4]), Plain);
    bulk_equals_portable(DVec3::new(1.0, 2.0, 3.0), Plain);
    bulk_equals_portable(IVec3::new(1, -2, 3), Plain);
    bulk_equals_portable(U8Vec3::new(1, 2, 3), Plain);
    bulk_equals_portable(I64Vec2::new(i64::MIN, 3), Plain);
    bulk_equals_portable(BVec3::new(true, false, true), Rows);
    bulk_equals_portable(BVec3A::new(true, false, true), Rows);
    bulk_equals_portable(BVec4A::new(false, false, true, true), Rows);
    bulk_equals_portable(Mat2::from_cols_array(&[1.0, 2.0, 3.0, 4.0]), Plain);
    bulk_equals_portable(Mat3::from_cols_array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), Plain);
    bulk_equals_portable(Mat4::from_cols(v, -v, v + 1.0, v * 0.5), Plain);
    bulk_equals_portable(Mat3A::from_diagonal(Vec3::new(1.0, 2.0, 3.0)), Rows);
    bulk_equals_portable(Affine3::from_translation(Vec3::new(1.0, 2.0, 3.0)), Plain);
    bulk_equals_portable(Affine3A::from_translation(Vec3::new(1.0, 2.0, 3.0)), Rows);
    bulk_equals_portable(DMat4::IDENTITY, Plain);
    bulk_equals_portable(DAffine3::from_translation(DVec3::new(1.0, 2.0, 3.0)), Plain);
    let kind = if size_of::<Affine2>() == 24 { Plain } else { Strided };
    bulk_equals_portable(Affine2::from_translation(Vec2::new(1.0, 2.0)), kind);
}

#[test]
fn schemas_have_the_names_of_lanes() {
    let schema = |builder: fn(&mut SchemaBuilder) -> Node| {
        let mut types = SchemaBuilder::new();
        let root = builder(&mut types);
        types.finish(root).to_string()
    };
    assert_eq!(schema(Quat::schema), "{x: f32, y: f32, z: f32, w: f32}");
    assert_eq!(schema(Affine2::schema).matches("f32").count(), 6);
}
