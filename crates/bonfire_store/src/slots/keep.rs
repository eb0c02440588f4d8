//! Which saves of a slot are kept.

use std::collections::BTreeSet;
use std::time::Duration;

/// Which saves of a slot are kept when a new one has been written. Locked saves are kept whatever this says.
///
/// ```
/// # use bonfire_store::Keep;
/// let keep = Keep::newest(3).one_per_day(7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    newest: usize,
    days: usize,
}

impl Default for Keep {
    /// The newest three.
    fn default() -> Self {
        Self::newest(3)
    }
}

impl Keep {
    /// The newest `count` saves, at least one.
    pub const fn newest(count: usize) -> Self {
        Self { newest: if count == 0 { 1 } else { count }, days: 0 }
    }
    /// Every save.
    pub const fn all() -> Self {
        Self::newest(usize::MAX)
    }
    /// Besides those, the last save of each of the `days` latest days on which there was one. Days are those of UTC.
    pub const fn one_per_day(mut self, days: usize) -> Self {
        self.days = days;
        self
    }

    pub(super) fn count(&self) -> usize {
        self.newest
    }

    /// Which of these saves go. They come newest first.
    pub(super) fn too_old(&self, saves: &[SaveHealth]) -> Vec<usize> {
        let day = |save: &SaveHealth| match save {
            SaveHealth::Good(Some(time)) => Some(time.as_secs() / 86_400),
            _ => None,
        };
        let mut days: BTreeSet<u64> = saves.iter().filter_map(day).collect();
        while days.len() > self.days {
            days.pop_first();
        }
        let mut goes = Vec::new();
        let mut good = 0;
        for (place, save) in saves.iter().enumerate() {
            let old = good >= self.newest;
            // The first of a day that is met is its last.
            let last_of_day = day(save).is_some_and(|day| days.remove(&day));
            match save {
                SaveHealth::Good(_) => good += 1,
                SaveHealth::Damaged => {}
                SaveHealth::Unknown => continue,
            }
            if old && !last_of_day {
                goes.push(place);
            }
        }
        goes
    }
}

/// What is known of a save when others push it out.
#[derive(Clone, Copy, Debug)]
pub(super) enum SaveHealth {
    /// As far as one can tell without reading it all; with the time it was saved at.
    Good(Option<Duration>),
    /// It counts as none of those that are kept, and goes when enough good ones are newer.
    Damaged,
    /// It cannot be read now, or not by this build, and may be good: it stays.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: Keep, days: &[f64]) -> Vec<usize> {
        let good = |day: &f64| SaveHealth::Good(Some(Duration::from_secs_f64(day * 86_400.0)));
        let goes = keep.too_old(&days.iter().map(good).collect::<Vec<_>>());
        (0..days.len()).filter(|place| !goes.contains(place)).collect()
    }

    #[test]
    fn the_newest_stay() {
        assert_eq!(kept(Keep::newest(2), &[9.0, 8.0, 7.0]), [0, 1]);
        assert_eq!(kept(Keep::newest(0), &[9.0, 8.0]), [0], "never none");
        assert_eq!(kept(Keep::all(), &[9.0, 8.0, 7.0]), [0, 1, 2]);
    }

    #[test]
    fn and_the_last_of_each_day() {
        // Two on day 9, three on day 8, one on day 5, one on day 2.
        let days = [9.9, 9.1, 8.9, 8.5, 8.1, 5.5, 2.0];
        assert_eq!(kept(Keep::newest(1).one_per_day(3), &days), [0, 2, 5]);
        assert_eq!(kept(Keep::newest(4).one_per_day(2), &days), [0, 1, 2, 3]);
        assert_eq!(kept(Keep::newest(1).one_per_day(9), &days), [0, 2, 5, 6]);
    }

    #[test]
    fn a_save_of_unknown_time_is_nobodys_day() {
        let today = SaveHealth::Good(Some(Duration::ZERO));
        let goes = Keep::newest(1).one_per_day(7).too_old(&[today, SaveHealth::Good(None), today]);
        assert_eq!(goes, [1, 2]);
    }

    #[test]
    fn days_are_counted_by_date_whatever_the_clock_said_in_between() {
        assert_eq!(kept(Keep::newest(1).one_per_day(3), &[13.0, 2.0, 1.0, 0.0, 12.0, 11.0]), [0, 4, 5]);
    }

    #[test]
    fn damaged_saves_push_out_no_good_ones_and_unknown_ones_stay() {
        let (good, damaged, unknown) = (SaveHealth::Good(None), SaveHealth::Damaged, SaveHealth::Unknown);
        let keep = Keep::newest(2);
        assert!(keep.too_old(&[damaged, damaged, damaged, good, good]).is_empty());
        assert_eq!(keep.too_old(&[good, damaged, good, damaged, good]), [3, 4]);
        assert_eq!(keep.too_old(&[good, good, unknown, good, unknown]), [3]);
    }
}
