"""Fit a study from sums over people, whoever holds them.

`study` runs a study in rounds. In each round, a `Transport` takes a `Request` to every
part, which returns an `Answer`: sums over its people. `rounds` checks the answers and
adds them up.

==============  ==================================================================
`study`         the course of a study: adjustment, tests, members, model
`adjustment`    rounds for the adjustment, the tests and the scale of each member
`questions`     the source of sums that members ask (`PeopleInParts`)
`build`         the model, without people
`rounds`        asks a request, checks answers, adds them up
`kinds`         a class for each kind of request: what is summed, shapes, limits
`people`        the people of one part, who answer requests (`LocalPeople`)
`subsets`       sets of people: folds of members, halves, blocks
`messages`      requests and answers as bytes
`parts`         tables in parts on Dask workers
`batches`       sums over a batch of people at a time
==============  ==================================================================

A table in parts is the use in this package (`parts`). Whoever else holds people
implements `rounds.Transport` and calls `study.run_study_from_sums`.
"""
