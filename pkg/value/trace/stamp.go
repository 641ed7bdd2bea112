package trace

import "fmt"

// Op is what an action does with an object. The zero value does nothing.
type Op int

// What may be done with an object.
const (
	Create Op = iota + 1 // the object is created
	Update               // an existing object is changed or extended
	Delete               // the object is deleted; the record of the deletion has the stamp
)

// A Conflict is an action whose initial trace id is not the one of the object. The
// object keeps its own.
type Conflict struct {
	Kept    ID
	Offered ID
}

// Error names both ids.
func (c *Conflict) Error() string {
	return fmt.Sprintf("the initial trace id of the object is %s and does not change; the action has %s", c.Kept, c.Offered)
}

// Stamp decides which ids an object has after an action. existing are the ids
// before it; without any, the object is new or older than the ids.
//
//   - A user creates an object: there is no initial id yet, so the trace of the
//     request becomes it.
//   - A user acts on an object later: its trace and span are of this request,
//     its initial id stays.
//   - A service acts for a user: the request brings the trace and the initial id
//     (now.Initial is set). Objects that it creates get that initial id; existing
//     ones keep theirs.
//
// An initial id is written once, when the object is created; an unknown origin
// stays unknown. Without an action nothing changes.
func Stamp(op Op, now Context, existing IDs) (IDs, *Conflict) {
	if now.IsZero() || op < Create || op > Delete {
		return existing, nil
	}
	stamped := IDs{Trace: now.Trace, Span: now.Span, Initial: existing.Initial}
	switch {
	case op == Create && existing.Initial.IsZero() && now.Initial.IsZero():
		stamped.Initial = now.Trace
	case op == Create && existing.Initial.IsZero():
		stamped.Initial = now.Initial
	case !existing.Initial.IsZero() && !now.Initial.IsZero() && existing.Initial != now.Initial:
		return stamped, &Conflict{Kept: existing.Initial, Offered: now.Initial}
	}
	return stamped, nil
}
