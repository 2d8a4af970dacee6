"""`soltape agents` on the command line."""

from click.testing import CliRunner

from pipeline.agents.command import agents


def test_an_unknown_group_is_refused_with_the_names_there_are():
    result = CliRunner().invoke(agents, ["nosuch"])
    assert result.exit_code == 2
    assert "no group is called nosuch; there are: accounts, live" in result.output


def test_help_says_what_goes_where_and_how_to_scale():
    text = " ".join(CliRunner().invoke(agents, ["--help"]).output.split())
    for said in (
        "solana-dex-swaps",
        "tape-undecoded",
        "share partitions",
        "METRICS_PORT_AGENTS",
    ):
        assert said in text
