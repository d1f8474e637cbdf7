"""Take the two addresses of ``_config.yml``: the site's, and the repository's.

Cards and the page for missing addresses need whole addresses, which start from
``html: baseurl``. While the repository's owner reads OWNER, the launch and
repository buttons would lead nowhere and are left out. What a page says until then
stands in an ``only`` block, under the tag ``address_unset``.
"""

from urllib.parse import urlsplit

from sphinx.errors import ConfigError

UNSET_OWNER = "OWNER"
NO_BUTTONS = {
    "launch_buttons": {},
    "use_issues_button": False,
    "use_repository_button": False,
}


def check_site_address(app, config):
    address = config.html_baseurl
    parts = urlsplit(address)
    if address and not (parts.scheme in ("http", "https") and parts.netloc):
        raise ConfigError(
            "html: baseurl in _config.yml must be the site's address, such as "
            f"https://YOUR-NAME.github.io/YOUR-BOOK/; got {address!r}"
        )
    if address and not address.endswith("/"):
        # Otherwise each address made from it would lose the last part of its path.
        config.html_baseurl = f"{address}/"
    config.ogp_site_url = config.html_baseurl
    config.ogp_site_name = config.html_title
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path or "/"


def leave_buttons_out(app, config):
    options = config.html_theme_options
    path = urlsplit(options.get("repository_url", "")).path
    if path.split("/")[1:2] in ([], [""], [UNSET_OWNER]):
        options.update(NO_BUTTONS)
        app.tags.add("address_unset")


def setup(app):
    # Before sphinx-notfound-page looks at its prefix.
    app.connect("config-inited", check_site_address, priority=400)
    app.connect("config-inited", leave_buttons_out, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
