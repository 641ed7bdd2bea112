package signoff

// Sections lists the sections in the order of the document.
func (d *Document) Sections() []Section { return append([]Section(nil), d.sections...) }

// Rules lists what the template says, section by section.
func (t *Template) Rules() []Rule { return append([]Rule(nil), t.rules...) }
