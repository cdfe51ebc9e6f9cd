"""LangChain's standard tests of chat models, against `nmt serve`; `scripts/client_suites.py` runs them.

What a translator does not have (tools, structured output, images) stands in the properties.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestTranslator(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": "en-de",
            "base_url": os.environ["NMT_URL"] + "/v1",
            "api_key": os.environ["DEEPL_AUTH_KEY"],
            "stream_usage": True,  # which it does not ask other servers than OpenAI's for
        }

    @property
    def has_tool_calling(self) -> bool:
        return False

    @property
    def has_structured_output(self) -> bool:
        return False

    @property
    def supports_image_inputs(self) -> bool:
        return False
