"""What results look like: as text for people, as JSON for programs, as HTML pages."""
