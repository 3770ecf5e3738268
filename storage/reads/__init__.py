"""What the console's pages read: plain functions of a connection and a window; frozen values out. No writes."""
