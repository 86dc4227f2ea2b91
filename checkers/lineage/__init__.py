"""Why a record is lost: the evidence about it in order of time, as witnesses and one sentence."""
