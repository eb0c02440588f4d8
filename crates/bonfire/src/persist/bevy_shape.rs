//! Shapes, bounding volumes and rays of `bevy_shape`, as structs of their fields.

use bevy_math::{Dir2, Dir3, Vec2, Vec3, Vec3A};
use bevy_shape::{
    Aabb2d, Aabb3d, Annulus, Arc2d, BoundingCircle, BoundingSphere, Capsule2d, Capsule3d, Circle,
    CircularSector, CircularSegment, Cone, ConicalFrustum, ConvexPolygon, Cuboid, Cylinder, Ellipse,
    InfinitePlane3d, Line2d, Line3d, Plane2d, Plane3d, Polygon, Polyline2d, Polyline3d, Ray2d, Ray3d,
    Rectangle, RegularPolygon, Rhombus, Segment2d, Segment3d, Sphere, Tetrahedron, Torus, Triangle2d,
    Triangle3d,
};

use super::Persist;
use super::container::encode_slice;
use super::foreign::structs;
use crate::error::{Error, Result};
use crate::schema::{Field, Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

structs! {
    Circle { radius: f32 }
    Arc2d { radius: f32, half_angle: f32 }
    CircularSector { arc: Arc2d }
    CircularSegment { arc: Arc2d }
    Ellipse { half_size: Vec2 }
    Annulus { inner_circle: Circle, outer_circle: Circle }
    Rhombus { half_diagonals: Vec2 }
    Plane2d { normal: Dir2 }
    Line2d { direction: Dir2 }
    Segment2d { vertices: [Vec2; 2] }
    Polyline2d { vertices: Vec<Vec2> }
    Triangle2d { vertices: [Vec2; 3] }
    Rectangle { half_size: Vec2 }
    Polygon { vertices: Vec<Vec2> }
    RegularPolygon { circumcircle: Circle, sides: u32 }
    Capsule2d { radius: f32, half_length: f32 }
    Aabb2d { min: Vec2, max: Vec2 }
    BoundingCircle { center: Vec2, circle: Circle }
    Ray2d { origin: Vec2, direction: Dir2 }
}

structs! {
    Sphere { radius: f32 }
    Plane3d { normal: Dir3, half_size: Vec2 }
    InfinitePlane3d { normal: Dir3 }
    Line3d { direction: Dir3 }
    Segment3d { vertices: [Vec3; 2] }
    Polyline3d { vertices: Vec<Vec3> }
    Cuboid { half_size: Vec3 }
    Cylinder { radius: f32, half_height: f32 }
    Capsule3d { radius: f32, half_length: f32 }
    Cone { radius: f32, height: f32 }
    ConicalFrustum { radius_top: f32, radius_bottom: f32, height: f32 }
    Torus { minor_radius: f32, major_radius: f32 }
    Triangle3d { vertices: [Vec3; 3] }
    Tetrahedron { vertices: [Vec3; 4] }
    Aabb3d { min: Vec3A, max: Vec3A }
    BoundingSphere { center: Vec3A, sphere: Sphere }
    Ray3d { origin: Vec3, direction: Dir3 }
}

/// Refuses what is no convex polygon. Its constructor panics for fewer than two vertices.
fn convex(vertices: &[Vec2]) -> Result<ConvexPolygon> {
    if vertices.len() < 3 {
        return Err(Error::corrupt(format!("a polygon has 3 vertices or more, not {}", vertices.len())));
    }
    ConvexPolygon::new(vertices.iter().copied()).map_err(|_| Error::corrupt("a polygon is not convex"))
}

impl Persist for ConvexPolygon {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let vertices = Field::new("vertices", Vec::<Vec2>::schema(types));
        types.add(Type::Struct(vec![vertices].into()))
    }
    fn encode(&self, out: &mut Writer) {
        if let Err(error) = convex(self.vertices()) {
            out.fail(Error::misuse(error));
        }
        encode_slice(self.vertices(), out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        convex(&Vec::<Vec2>::decode(input)?).map_err(|error| error.in_field("vertices"))
    }
}
