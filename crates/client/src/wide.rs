//! How the properties of a wide entity are distributed over its rows (P-10.1). The result is part of the format.

use crate::property::{PropertyDef, Storage};
#[cfg(feature = "patterns")]
use crate::series::point_of;

/// Parts of an entity: two digits.
pub(crate) const PARTS_MAX: usize = 99;
/// Properties per part: 252 minus the kind, `_gen`, `_parts` and `_WriteIds`.
pub(crate) const PART_PROPERTIES_MAX: usize = 248;
/// Properties that a chunked field may need: 1 MiB in pieces of 64 KiB.
const CHUNKS_MAX: usize = 16;

/// How full the parts are; part 0 is not used.
struct Parts([usize; PARTS_MAX + 1]);

impl Parts {
    /// Puts `count` properties that must stay together into a part.
    #[expect(clippy::indexing_slicing, reason = "callers check the number of the part")]
    const fn fill(&mut self, part: usize, count: usize) {
        self.0[part] += count;
    }

    /// Puts `count` properties that must stay together into the first part with room for them, starting at `part`,
    /// and returns its number.
    #[expect(clippy::indexing_slicing, reason = "the loop ends at the last part")]
    const fn deal(&mut self, mut part: usize, count: usize) -> usize {
        while part <= PARTS_MAX && self.0[part] + count > PART_PROPERTIES_MAX {
            part += 1;
        }
        assert!(part <= PARTS_MAX, "a wide entity has at most 99 parts");
        self.fill(part, count);
        part
    }

    /// The fill of the parts by fields that name their part.
    const fn named(properties: &[PropertyDef]) -> Self {
        let (mut parts, mut rest) = (Self([0; PARTS_MAX + 1]), properties);
        while let [property, more @ ..] = rest {
            if property.part > 0 {
                parts.fill(property.part as usize, slots(property));
            }
            rest = more;
        }
        parts
    }
}

/// Properties that a field may need.
const fn slots(property: &PropertyDef) -> usize {
    match property.storage {
        Storage::Series { points } => points,
        Storage::Chunked => CHUNKS_MAX,
        Storage::Flattened(inner) => {
            let (mut total, mut rest) = (0, inner);
            while let [property, more @ ..] = rest {
                total += slots(property);
                rest = more;
            }
            total
        }
        Storage::Key => 0,
        Storage::Single | Storage::Large(_) => 1,
    }
}

/// Checks that the properties of a wide type fit into its parts.
#[expect(clippy::indexing_slicing, reason = "it runs while compiling")]
pub const fn check_wide(properties: &[PropertyDef], parts: usize) {
    assert!(parts >= 1 && parts <= PARTS_MAX, "a wide entity has 1 to 99 parts");
    let mut rest = properties;
    while let [property, more @ ..] = rest {
        assert!(property.part as usize <= parts, "a field names a part that there is not");
        rest = more;
    }
    let mut filled = Parts::named(properties);
    let mut last = 1;
    rest = properties;
    while let [property, more @ ..] = rest {
        if property.part == 0 {
            match property.storage {
                Storage::Series { points } => {
                    let mut point = 0;
                    while point < points {
                        last = filled.deal(last, 1);
                        point += 1;
                    }
                }
                _ => last = filled.deal(last, slots(property)),
            }
        }
        rest = more;
    }
    assert!(last <= parts, "the properties need more parts");
    let mut part = 1;
    while part <= parts {
        assert!(filled.0[part] <= PART_PROPERTIES_MAX, "a part has at most 248 properties");
        part += 1;
    }
}

/// The part of each property of a type.
#[cfg(feature = "patterns")]
pub(crate) struct Dealt {
    /// The fields, with one part for each point, or one part for all their properties.
    fields: Vec<(&'static PropertyDef, Vec<usize>)>,
    /// Where the next property is likely to be: properties are written in the order of the fields.
    next: usize,
}

#[cfg(feature = "patterns")]
impl Dealt {
    pub(crate) fn of(properties: &'static [PropertyDef]) -> Self {
        let mut filled = Parts::named(properties);
        let mut last = 1;
        let mut fields = Vec::with_capacity(properties.len());
        for property in properties {
            let mut deal = |count| {
                last = filled.deal(last, count);
                last
            };
            let parts = match property.storage {
                _ if property.part > 0 => vec![usize::from(property.part)],
                Storage::Series { points } => (0..points).map(|_| deal(1)).collect(),
                _ => vec![deal(slots(property))],
            };
            fields.push((property, parts));
        }
        Self { fields, next: 0 }
    }

    /// The part of a property. Properties that no field declares, such as the kind, are in the first.
    pub(crate) fn part_of(&mut self, name: &str) -> usize {
        let (before, after) = self.fields.split_at(self.next.min(self.fields.len()));
        let order = after.iter().chain(before).enumerate();
        for (ahead, (property, parts)) in order {
            if !property.holds(name) {
                continue;
            }
            self.next = (self.next + ahead) % self.fields.len().max(1);
            let point = match property.storage {
                Storage::Series { points } => point_of(name, property.name, points),
                _ => None,
            };
            let part = point.and_then(|point| parts.get(point)).or(parts.first());
            return part.copied().unwrap_or(1);
        }
        1
    }
}

#[cfg(all(test, feature = "patterns"))]
mod tests {
    use super::*;
    use lazuli_model::EdmType;

    const INT: Option<EdmType> = Some(EdmType::Int32);

    #[test]
    fn properties_are_dealt_in_order_after_those_that_name_their_part() {
        // P-10.1.
        const SERIES: PropertyDef =
            PropertyDef::new("days", "D", INT).stored(Storage::Series { points: 365 });
        const PROPERTIES: &[PropertyDef] =
            &[PropertyDef::new("a", "A", INT), SERIES, PropertyDef::new("b", "B", INT).in_part(1)];
        const _: () = check_wide(PROPERTIES, 2);
        let mut dealt = Dealt::of(PROPERTIES);
        for (name, part) in [
            ("A", 1),
            ("D001", 1),
            ("D246", 1),
            ("D247", 2),
            ("D365", 2),
            ("B", 1),
            ("EntityType", 1),
            ("D300", 2),
            ("A", 1),
        ] {
            assert_eq!(dealt.part_of(name), part, "{name}");
        }
    }
}
