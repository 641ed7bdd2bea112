package trace

import "fmt"

// Op is what an action does with an object. The zero value does nothing.
type Op int

// What may be done with an object.
const (
	Create Op = iota + 1 // it comes to be
	Update               // it was there, and is changed or added to
	Delete               // it ends; what is stamped is in the record of its end
)

// A Conflict is an action that came with another initial trace id than the
// object has. The object keeps its own.
type Conflict struct {
	Kept    ID
	Offered ID
}

// Error says it.
func (c *Conflict) Error() string {
	return fmt.Sprintf("the object began in trace %s and keeps it; the action came with %s as its beginning", c.Kept, c.Offered)
}

// Stamp decides what an object carries after an action. An object that exists
// is what existing says; one that carries nothing is older than the ids, or new.
//
//   - A user makes an object: there is no initial id yet, so the trace of the
//     request becomes it.
//   - A user acts on an object later: its trace and span are of this request,
//     its initial id stays.
//   - A process of ours acts for a user: the trace, and the initial id with it,
//     came from the one that asked (now.Initial is set). What it makes has that
//     initial id too; what was there keeps its own.
//
// An initial id is written once. An object of unknown origin stays one: nothing
// but its making says where it began. Without an action nothing changes.
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
