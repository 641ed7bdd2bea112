package pipeline

import (
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/backend/marker"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// markers are the version markers that release.yaml names.
type markers struct{ *job }

// moveMarkers is [markers.move] as an act.
func moveMarkers(ctx context.Context, t tools, in facts) (_ facts, err error) {
	in.lines, err = markers{t.job}.move(ctx)
	return in, err
}

// move writes this version into each marker that release.yaml names and that
// has a lower version, and reports the result for each. All markers are read
// before the first is moved.
func (p markers) move(ctx context.Context) ([]string, error) {
	at, err := p.filesAt(profile.Release)
	if err != nil {
		return nil, err
	}
	m, _, err := p.ownManifest(ctx, at)
	if err != nil {
		return nil, err
	}
	names, err := p.named(ctx, m, at)
	if err != nil {
		return nil, err
	}
	if why := p.unmarked(names); why != "" {
		return []string{why}, nil
	}
	var place marker.Place
	if place.Place, err = p.openPlace(p.Profile.Markers); err != nil {
		return nil, err
	}
	if place.Writer, err = p.OpenWriter(p.Profile.Markers); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := marker.Read(ctx, place, name); err != nil {
			return nil, err
		}
	}
	var said []string
	for _, name := range names {
		moved, err := marker.Move(ctx, place, name, p.Version)
		if err != nil {
			return said, err
		}
		said = append(said, "marker "+moved.String())
	}
	return said, nil
}

// unmarked says why no marker is written; empty if some are.
func (p markers) unmarked(names []string) string {
	switch {
	case len(names) == 0:
		return "no marker was moved: release.yaml names none"
	case p.Profile.Markers == "":
		return fmt.Sprintf("no marker was moved: release.yaml names %d, but the profile has no places.markers", len(names))
	}
	return ""
}

// named returns the markers that the published release.yaml names. It refuses
// markers under which this version's channel does not belong.
func (p markers) named(ctx context.Context, m manifest.Manifest, at store.Place) ([]string, error) {
	chosen := p.Parameters
	if here := p.invocationHere(); here != "" && isOf(m, here) {
		chosen = p.parametersHere()
	}
	return marker.Named(ctx, at, m.Config, p.Version, chosen)
}

// Marker is where a version marker points. Problem says why that is unknown.
type Marker struct {
	Name    string          `json:"name"`
	Version version.Version `json:"version,omitzero"`
	Problem string          `json:"problem,omitempty"`
}

// read reads the markers that a release names, and reports whether any is
// behind this version, which is no error.
func (p markers) read(ctx context.Context, m manifest.Manifest, at store.Place) (all []Marker, behind bool, _ error) {
	names, err := p.named(ctx, m, at)
	if err != nil || p.unmarked(names) != "" {
		return nil, false, err
	}
	place, err := p.openPlace(p.Profile.Markers)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		held, err := marker.Read(ctx, place, name)
		if err != nil {
			all = append(all, Marker{Name: name, Problem: verdict.FindingOf(name, err).Message})
			continue
		}
		all = append(all, Marker{Name: name, Version: held})
		behind = behind || held.IsZero() || held.Less(p.Version)
	}
	return all, behind, nil
}
