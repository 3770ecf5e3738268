"""The console's router. Launch from the project's root: python -m streamlit run app/main.py."""

import streamlit as st

from app.ui import arrival, chrome

st.set_page_config(page_title="Cachescope", page_icon=chrome.ICON, layout="wide", initial_sidebar_state=chrome.SIDEBAR_PX)
st.logo(chrome.LOGO, size="large")
chosen = st.navigation(chrome.menu(), expanded=True)
arrival.take(chosen.url_path)
chosen.run()
arrival.settle()
